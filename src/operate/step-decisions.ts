import { advance, type Decision, type History } from '../policy/index.js'
import type { StepAttempt, StepRecord } from '../store/internal.js'

/** An attempt at a step with the history before it. */
export interface StepDecision {
  readonly entry: StepAttempt
  readonly history: History
}

/**
 * The attempts at a step since its task was enqueued or last redriven, each with the history before it. None if the first ones
 * are no longer on record.
 */
export function stepDecisions({ ledger, since, startedAt, attempts, deferrals, isDone }: StepRecord): StepDecision[] {
  const entries = ledger.filter(entry => entry.startedAt >= since)
  if (entries.length !== attempts + deferrals + (isDone ? 1 : 0)) return []
  const decisions: StepDecision[] = []
  let history: History = { attempts: 0, deferrals: 0, startedAt }
  for (const entry of entries) {
    decisions.push({ entry, history })
    if (entry.verdict !== undefined) history = advance(history, entry.verdict, decisionOf(entry))
  }
  return decisions
}

/** The decision that an attempt has on record. Nothing follows one that gave up, whatever the reason. */
function decisionOf({ outcome, delayMs = 0, endedAt }: StepAttempt): Decision {
  if (outcome === 'gave_up') return { action: 'give_up', reason: 'final_error' }
  return { action: outcome === 'deferred' ? 'defer' : 'retry', delayMs, at: endedAt + delayMs }
}

/** An attempt at a step with all that its decision was made from. */
interface RecordedStepDecision {
  readonly step: string
  /** Its place among the attempts at the step. */
  readonly sequence: number
  readonly entry: DecidedAttempt
  readonly history: History
  /** Why the step was given up by it. */
  readonly reason: StepRecord['gaveUp']
}

type DecidedAttempt = StepAttempt & Required<Pick<StepAttempt, 'verdict' | 'policy' | 'random'>>

/** The decisions on a step that can be recomputed. */
export function decisionsOnRecord(step: StepRecord): RecordedStepDecision[] {
  return stepDecisions(step).flatMap(({ entry, history }, index) => {
    const { verdict, policy, random } = entry
    if (verdict === undefined || policy === undefined || random === undefined) return []
    const reason = entry.outcome === 'gave_up' ? step.gaveUp : undefined
    const decided = { ...entry, verdict, policy, random }
    return [{ step: step.name, sequence: index + 1, entry: decided, history, reason }]
  })
}
