import { extendPolicy, OptionError, type Policy, policies } from '../policy/index.js'

/** Where settings come from: `process.env`, or the like of it. */
export type Env = Readonly<Record<string, string | undefined>>

/**
 * The policy of event handlers, as the environment sets it: `policies.event`, changed by `RETRY_MAX_ATTEMPTS`,
 * `RETRY_BASE_DELAY_MS`, `RETRY_BACKOFF_FACTOR`, `RETRY_MAX_DELAY_SECONDS` and `RETRY_TTL_MINUTES`. With
 * `EVENT_RETRY_TYPE=noop` it is one call, and no wait.
 *
 * ```ts
 * const policy = eventPolicy(process.env)
 * ```
 */
export function eventPolicy(env: Env): Policy {
  const type = env.EVENT_RETRY_TYPE ?? ''
  if (!['', 'default', 'noop'].includes(type))
    throw new OptionError('EVENT_RETRY_TYPE', `EVENT_RETRY_TYPE must be 'default' or 'noop', got '${type}'.`)
  const { backoff } = policies.event
  const set = extendPolicy(policies.event, {
    attempts: read(env, 'RETRY_MAX_ATTEMPTS', { min: 1, isWhole: true }),
    ttl: read(env, 'RETRY_TTL_MINUTES', { min: 0, unitMs: 60_000 }),
    backoff: {
      ...backoff,
      ...defined({
        base: read(env, 'RETRY_BASE_DELAY_MS', { min: 0, unitMs: 1 }),
        factor: read(env, 'RETRY_BACKOFF_FACTOR', { min: 1 }),
        max: read(env, 'RETRY_MAX_DELAY_SECONDS', { min: 0, unitMs: 1000 }),
      }),
    },
  })
  return type === 'noop' ? extendPolicy(set, { attempts: 1 }) : set
}

interface Expected {
  readonly min: number
  readonly isWhole?: boolean
  /** What one of it is in milliseconds, if it is a duration. */
  readonly unitMs?: number
}

/** A number from the environment; `undefined` if it is not set. */
function read(env: Env, name: string, { min, isWhole = false, unitMs }: Expected): number | undefined {
  const text = env[name]?.trim() ?? ''
  if (text === '') return undefined
  const value = Number(text)
  if (!(Number.isFinite(value) && value >= min && (!isWhole || Number.isInteger(value)))) {
    const expected = `${isWhole ? 'a whole number' : 'a number'}, ${min} or more`
    throw new OptionError(name, `${name} must be ${expected}, got '${text.slice(0, 60)}'.`)
  }
  return unitMs === undefined ? value : Math.round(value * unitMs)
}

function defined<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>
}
