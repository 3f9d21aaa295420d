import type { End, Failed, StepName } from '../../attempt/index.js'

/** A step that its task is to wait for. */
export interface WaitingStep {
  readonly step: StepName
  /** When its next attempt is due. */
  readonly nextAt: number
  /** Its last attempt; `undefined` if an earlier attempt at its task made that. */
  readonly failed: Failed | undefined
}

/** How the attempt at a task ends that is to wait for these steps; `undefined` if there are none. */
export function stepToWaitFor(steps: readonly WaitingStep[], now: number): End | undefined {
  const [first] = [...steps].sort(bySettlement)
  if (first === undefined) return undefined
  const { step, nextAt, failed } = first
  const delayMs = Math.max(0, nextAt - now)
  if (failed === undefined || failed.decision.action === 'give_up') return { type: 'later', delayMs, step }
  return { ...failed, decision: { ...failed.decision, delayMs } }
}

/** The longest rate limit comes first, as its settlement holds the lane. Without any, the step that is due first. */
function bySettlement(a: WaitingStep, b: WaitingStep): number {
  const [isHeld, isOtherHeld] = [isRateLimit(a), isRateLimit(b)]
  if (isHeld !== isOtherHeld) return isHeld ? -1 : 1
  return isHeld ? b.nextAt - a.nextAt : a.nextAt - b.nextAt
}

function isRateLimit({ failed }: WaitingStep): boolean {
  return failed?.decision.action === 'defer'
}
