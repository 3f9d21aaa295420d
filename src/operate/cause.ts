import { type DeathReason, DOCUMENT_KIND } from '../engine/internal.js'
import { ownPlace } from '../fingerprint/internal.js'
import type { LedgerRow, TaskRecord } from '../store/index.js'
import type { StepRecord } from '../store/internal.js'

/** A sentence for people, with a stable code for programs. */
export interface Remark {
  /** A stable code, for programs. */
  readonly code: string
  /** A sentence, for people. */
  readonly text: string
}

type Death = Pick<TaskRecord, 'kind' | 'reason' | 'attempts' | 'losses' | 'errorCode'>

const CAUSES: Readonly<Record<DeathReason, (task: Death) => string>> = {
  aborted: () => 'It was aborted.',
  final_error: () => 'Its error is final: another attempt would fail the same way.',
  losses_exhausted: ({ losses }) => (losses === 1 ? 'Its worker died.' : `Its worker died, ${losses} times.`),
  attempts_exhausted: task => {
    const { attempts } = task
    if (isStuck(task)) return `It was sent ${attempts === 1 ? 'once' : `${attempts} times`}, and was not completed.`
    return attempts === 1 ? 'Its only attempt failed.' : `${allOf(attempts)} attempts failed.`
  },
  ttl_expired: () => 'Its time to live ended, or would have ended before the next attempt.',
  deadline_passed: () => 'Its deadline passed, or would have passed before the next attempt.',
  budget_empty: () => 'The retry budget was empty.',
  failed_by_hand: () => 'Somebody failed it by hand.',
}

/** Whether it is a document that no service completed in time. Perhaps none ever began. */
function isStuck({ kind, errorCode }: Death): boolean {
  return kind.startsWith(DOCUMENT_KIND) && errorCode === 'stuck'
}

function allOf(attempts: number): string {
  return attempts === 2 ? 'Both' : `All ${attempts}`
}

/** The step that a task died of. */
export type FatalStep = Pick<StepRecord, 'name' | 'attempts'>

/** Why a task is dead. The code is its reason. `step` is the one that it died of, if it was one. */
export function causeOf(task: Death, step?: FatalStep): Remark {
  const { reason } = task
  if (step !== undefined) {
    const { code, text } = causeOf({ ...task, attempts: step.attempts })
    return { code, text: `Its step '${step.name}' was given up. ${text}` }
  }
  if (reason === undefined) return { code: 'unknown', text: 'No reason is on record.' }
  return { code: reason, text: isKnown(reason) ? CAUSES[reason](task) : reason }
}

function isKnown(reason: string): reason is DeathReason {
  return Object.hasOwn(CAUSES, reason)
}

/** The step that a task died of; `undefined` if it was none, or was forgotten since. */
export function fatalStep(ledger: readonly LedgerRow[], steps: readonly StepRecord[]): StepRecord | undefined {
  const fatal = ledger.findLast(({ outcome }) => outcome === 'dead' || outcome === 'lost')
  return steps.find(({ name }) => name === fatal?.notes?.step)
}

const ADVICE = {
  investigate_crash:
    'Workers died while running it. Look for a crash, a lack of memory or a call to process.exit() before you redrive it. It will run alone.',
  fix_payload:
    "Its payload does not match the task's schema. Change the payload with `redrive dlq edit`, or fix the schema and restart the workers, then redrive it.",
  fix_codec:
    'The worker could not decode it. Give the workers the codec and the keys that it was encoded with, and restart them. Then redrive it.',
  fix_error:
    'It would fail in the same way again. First fix the cause named in the error (code, data or permissions), and restart the workers if the code changed. Then redrive it. If nothing can change, as with a card that was declined, discard it.',
  check_dependency:
    'Check that the service it depends on works again, then redrive it. If outages outlast its attempts, allow more attempts.',
  check_service: 'Check that its service runs, takes its events and completes its documents, then redrive it.',
  redrive_late: 'If the work is still wanted, redrive it. Its time to live starts afresh.',
  redrive: 'If the work is still wanted, redrive it.',
} as const

/** The next step before a dead letter is redriven. `stack` is that of the failure that ended it. */
export function adviceFor(task: Death, stack: string | undefined): Remark {
  const code = adviceCode(task)
  // An error without a status or a code that throws in the user's own code is more likely a bug than an outage.
  const isUnknown = code === 'check_dependency' && task.errorCode === 'unknown'
  const place = isUnknown && stack !== undefined ? ownPlace(stack) : undefined
  if (place !== undefined) return { code: 'fix_code', text: fixCodeAt(place) }
  return { code, text: ADVICE[code] }
}

function fixCodeAt(place: string): string {
  return `Its code failed at ${place}, with an error that names no service. Fix the code there, restart the workers, then redrive it. If the error reports an outage, check that the service works again instead.`
}

function adviceCode(task: Death): keyof typeof ADVICE {
  const { reason, errorCode } = task
  if (errorCode === 'lost') return 'investigate_crash'
  if (errorCode === 'payload_invalid') return 'fix_payload'
  if (errorCode?.startsWith('codec_')) return 'fix_codec'
  switch (reason) {
    case 'losses_exhausted':
      return 'investigate_crash'
    case 'final_error':
      return 'fix_error'
    case 'attempts_exhausted':
      return isStuck(task) ? 'check_service' : 'check_dependency'
    case 'ttl_expired':
    case 'deadline_passed':
      return 'redrive_late'
    default:
      return 'redrive'
  }
}
