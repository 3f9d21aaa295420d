import { shownText } from '../codec/internal.js'
import type { By } from '../store/index.js'
import { withoutSecrets } from '../telemetry/index.js'

/** `2026-07-30 10:00:00Z` */
export function timeText(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')}Z`
}

/** `by ada since 2026-07-30 10:00:00Z: the mail server is down`, as far as it is on record. */
export function byText(by: By | undefined, at: number | undefined): string {
  const who = by === undefined ? '' : ` by ${by.who}`
  const since = at === undefined ? '' : ` since ${timeText(at)}`
  return `${who}${since}${by?.why === undefined ? '' : `: ${withoutSecrets(by.why)}`}`
}

/** The last failure of a task, as far as it is on record. */
interface LastFailure {
  readonly errorCode?: string | null | undefined
  readonly errorMessage?: string | null | undefined
}

/** `http_502: Error: Bad gateway`, or `TypeError: x is undefined` where the code is the name; empty without an error. */
export function failureWords({ errorCode, errorMessage }: LastFailure): string {
  const message = errorMessage == null ? errorMessage : shownText(errorMessage)
  const isNamed = message?.startsWith(`${errorCode}: `)
  return [isNamed ? '' : errorCode, message].filter(part => part).join(': ')
}

/** ` (http_502: Error: Bad gateway)`; nothing without an error. */
export function errorText(failure: LastFailure): string {
  const words = failureWords(failure)
  return words === '' ? '' : ` (${words})`
}

/** `1 task`, `12 tasks` */
export function tasksText(count: number): string {
  return `${count.toLocaleString('en').replaceAll(',', ' ')} ${count === 1 ? 'task' : 'tasks'}`
}
