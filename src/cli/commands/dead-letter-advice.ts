import type { TaskRecord } from '../../store/index.js'
import { redact } from '../../telemetry/index.js'
import { shellWord } from '../terminal/visible.js'

/** Why a task is dead, in a sentence. */
export function whyDead({ reason, attempts, errorCode }: TaskRecord): string {
  switch (reason) {
    case 'final_error':
      return 'Its error is final: the same again would end the same way.'
    case 'attempts_exhausted':
      return attempts === 1 ? 'It had one attempt, and that failed.' : `All of its ${attempts} attempts failed.`
    case 'ttl_expired':
      return 'Its time to live was over, or would have been before the next attempt.'
    case 'deadline_passed':
      return 'Its deadline had passed, or would have before the next attempt.'
    case 'budget_empty':
      return 'The retry budget was empty.'
    case 'aborted':
      return 'It was aborted.'
    default:
      return reason ?? errorCode ?? 'No reason is on record.'
  }
}

/** What should be seen to before a dead letter is redriven. */
export function beforeRedriving({ reason, errorCode, losses }: TaskRecord): string {
  if (errorCode === 'lost' || losses > 0) {
    return 'Workers died while they ran it: look for a crash, a lack of memory or process.exit() before you redrive it. It will run alone.'
  }
  if (errorCode === 'payload_invalid') {
    return 'Its payload does not fit what the task takes: mend the schema or the handler, restart the workers, then redrive it.'
  }
  switch (reason) {
    case 'final_error':
      return 'Mend what the error names (the code, the data, the permissions), restart the workers if the code changed, then redrive it.'
    case 'attempts_exhausted':
      return 'See whether what it needs works again, then redrive it. If it was down for longer than the attempts last, allow more of them.'
    case 'ttl_expired':
    case 'deadline_passed':
      return 'If it is still wanted, redrive it: its time to live starts afresh.'
    default:
      return 'If it is still wanted, redrive it.'
  }
}

/** The command lines that redrive it, and those like it if there are any. */
export function redriveCommands({ id, kind, errorCode }: TaskRecord, { alike, store }: RedriveHints): string[] {
  // What is shown may be passed on: not the password.
  const flags = store === undefined ? '' : ` --store ${shellWord(redact(store))}`
  const word = shellWord(id)
  const one = `redrive dlq redrive${flags} ${id.startsWith('-') ? `-- ${word}` : word}`
  if (alike < 2 || errorCode === undefined) return [one]
  return [one, `redrive dlq redrive${flags} --kind ${shellWord(kind)} --code ${shellWord(errorCode)}`]
}

/** What the command lines depend on. */
export interface RedriveHints {
  /** How many dead letters have the same kind and code, this one included. */
  readonly alike: number
  /** What `--store` said. */
  readonly store: string | undefined
}
