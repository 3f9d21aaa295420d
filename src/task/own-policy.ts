import { toMs } from '../engine/internal.js'
import {
  canonicalJson,
  type Duration,
  extendPolicy,
  formatDuration,
  OptionError,
  type Policy,
  type PolicyInput,
} from '../policy/index.js'
import { checkOptions, isObject, type KnownOptions, longestDelay, wrongOption } from '../policy/internal.js'

/** The fields of a policy that a task may have of its own. @inline */
export type OwnPolicy = Pick<PolicyInput, 'attempts' | 'backoff' | 'timeout' | 'ttl'>

/** The most that a call may ask for in each field. A field that is absent cannot be set. @inline */
export interface PolicyMax {
  /** The most attempts. */
  readonly attempts?: number | undefined
  /** The longest delay that a backoff may come to, before jitter. */
  readonly backoff?: Duration | undefined
  /** The longest timeout of an attempt. */
  readonly timeout?: Duration | undefined
  /** The longest time to live. */
  readonly ttl?: Duration | undefined
}

/** The same in numbers, and in milliseconds. @inline */
export type ParsedPolicyMax = { readonly [Field in keyof PolicyMax]?: number | undefined }

type Field = keyof PolicyMax & keyof OwnPolicy

const FIELDS: KnownOptions<PolicyMax> = { attempts: '', backoff: '', timeout: '', ttl: '' }
const NAMES = Object.keys(FIELDS) as Field[]

/** Checks the maxima of a kind. */
export function toPolicyMax(kind: string, max: PolicyMax): ParsedPolicyMax {
  checkOptions(`'policyMax' of the task '${kind}'`, max, FIELDS)
  const { attempts } = max
  if (attempts !== undefined && !(Number.isSafeInteger(attempts) && attempts >= 1)) {
    const problem = `must be a whole number, 1 or more, got ${String(attempts)}.`
    throw new OptionError('policyMax.attempts', `'policyMax.attempts' of the task '${kind}' ${problem}`)
  }
  const ms = (field: Field, value: Duration | undefined) =>
    value === undefined ? undefined : toMs(`policyMax.${field}`, value)
  return { attempts, backoff: ms('backoff', max.backoff), timeout: ms('timeout', max.timeout), ttl: ms('ttl', max.ttl) }
}

interface BoundedTask {
  readonly kind: string
  readonly policy: Policy
  readonly policyMax: ParsedPolicyMax | undefined
}

/** A policy of a task's own as a store keeps it: the fields that the call sets, whole, and no others. */
export function ownPolicy(task: BoundedTask, own: OwnPolicy): { readonly policy?: string } {
  if (!isObject(own)) throw wrongOption('policy', 'an object', own)
  checkOptions(`'policy' of a task of the kind '${task.kind}'`, own, FIELDS)
  const policy = extendPolicy(task.policy, own)
  const fields = NAMES.filter(field => own[field] !== undefined)
  for (const field of fields) checkMost(task, field, policy)
  if (fields.length === 0) return {}
  return { policy: canonicalJson(Object.fromEntries(fields.map(field => [field, policy[field]]))) }
}

function checkMost({ kind, policyMax = {} }: BoundedTask, field: Field, policy: Policy): void {
  const most = policyMax[field]
  if (most === undefined) {
    const problem = `A task of the kind '${kind}' takes no '${field}' of its own.`
    throw new OptionError(`policy.${field}`, `${problem} Set 'policyMax.${field}' of the kind to allow it.`)
  }
  const asked = field === 'backoff' ? longestDelay(policy.backoff) : (policy[field] ?? 0)
  if (asked <= most) return
  const inWords = field === 'attempts' ? String : formatDuration
  const what = field === 'backoff' ? "The longest delay of 'policy.backoff'" : `'policy.${field}'`
  const problem = `${what} may be ${inWords(most)} at most for the kind '${kind}', got ${inWords(asked)}.`
  throw new OptionError(`policy.${field}`, `${problem} Its 'policyMax' says so.`)
}
