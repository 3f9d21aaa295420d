import type { TaskRecord } from '../store/index.js'

/** A sentence for people, with a stable code for programs. */
export interface Remark {
  readonly code: string
  readonly text: string
}

type Death = Pick<TaskRecord, 'reason' | 'attempts' | 'errorCode' | 'losses'>

/** Why a task is dead. The code is its reason. */
export function causeOf({ reason = 'unknown', attempts }: Death): Remark {
  return { code: reason, text: causeText(reason, attempts) }
}

/** The next step before a dead letter is redriven. */
export function adviceFor({ reason, errorCode, losses }: Death): Remark {
  if (errorCode === 'lost' || losses > 0) return ADVICE.investigate_crash
  if (errorCode === 'payload_invalid') return ADVICE.fix_payload
  switch (reason) {
    case 'final_error':
      return ADVICE.fix_error
    case 'attempts_exhausted':
      return ADVICE.check_dependency
    case 'ttl_expired':
    case 'deadline_passed':
      return ADVICE.redrive_late
    default:
      return ADVICE.redrive
  }
}

const ADVICE = {
  investigate_crash: {
    code: 'investigate_crash',
    text: 'Workers died while running it. Look for a crash, a lack of memory or a call to process.exit() before you redrive it. It will run alone.',
  },
  fix_payload: {
    code: 'fix_payload',
    text: "Its payload does not match the task's schema. Fix the schema or the handler, restart the workers, then redrive it.",
  },
  fix_error: {
    code: 'fix_error',
    text: 'Fix the cause named in the error (code, data or permissions), restart the workers if the code changed, then redrive it.',
  },
  check_dependency: {
    code: 'check_dependency',
    text: 'Check that the service it depends on works again, then redrive it. If outages outlast its attempts, allow more attempts.',
  },
  redrive_late: {
    code: 'redrive_late',
    text: 'If the work is still wanted, redrive it. Its time to live starts afresh.',
  },
  redrive: { code: 'redrive', text: 'If the work is still wanted, redrive it.' },
} satisfies Record<string, Remark>

function causeText(reason: string, attempts: number): string {
  switch (reason) {
    case 'final_error':
      return 'Its error is final: another attempt would fail the same way.'
    case 'attempts_exhausted':
      return attempts === 1 ? 'Its only attempt failed.' : `All ${attempts} attempts failed.`
    case 'ttl_expired':
      return 'Its time to live ended, or would have ended before the next attempt.'
    case 'deadline_passed':
      return 'Its deadline passed, or would have passed before the next attempt.'
    case 'budget_empty':
      return 'The retry budget was empty.'
    case 'aborted':
      return 'It was aborted.'
    case 'unknown':
      return 'No reason is on record.'
    default:
      return reason
  }
}
