/** A length of time: a number of milliseconds, or text such as `'250ms'`, `'1.5s'`, `'5m'`, `'24h'` or `'7d'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
type Unit = keyof typeof UNITS

/** No duration is longer, so that every time computed from one is still a valid date. */
export const MAX_DURATION_MS = 3_153_600_000_000

/** Whole milliseconds, or `undefined` when the value is not a duration. */
export function parseDuration(value: unknown): number | undefined {
  const ms = typeof value === 'string' ? fromText(value) : value
  return typeof ms === 'number' && ms >= 0 && ms <= MAX_DURATION_MS ? Math.round(ms) : undefined
}

/** Not a number for what is not a duration. */
function fromText(text: string): number {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) ?? []
  return Number(amount) * UNITS[unit as Unit]
}

/** Formats milliseconds for people: `0ms`, `250ms`, `1.5s`, `2m`, `1h 30m`. */
export function formatDuration(ms: number): string {
  if (Math.round(ms) < UNITS.s) return `${Math.round(ms)}ms`
  const seconds = Number((ms / UNITS.s).toFixed(2))
  if (seconds < 60) return `${seconds}s`
  return inTwoUnits(ms, 'm', 's', 60) ?? inTwoUnits(ms, 'h', 'm', 24) ?? inTwoUnits(ms, 'd', 'h', Infinity) ?? ''
}

/** `1h 30m`, rounded to the smaller unit; `undefined` if that makes more of the larger one than it should have. */
function inTwoUnits(ms: number, large: Unit, small: Unit, limit: number): string | undefined {
  const parts = Math.round(ms / UNITS[small])
  const perLarge = UNITS[large] / UNITS[small]
  const rest = parts % perLarge
  if (parts >= limit * perLarge) return undefined
  return `${Math.floor(parts / perLarge)}${large}${rest > 0 ? ` ${rest}${small}` : ''}`
}
