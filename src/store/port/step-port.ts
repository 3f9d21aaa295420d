import type { ForgottenSteps, StepRow } from '../contract/step.js'

/** The primitives of steps, beside `recordStep`, which is a hot verb. */
export interface StepPort {
  /** The steps of each task, in the order in which they were first recorded. */
  of(ids: readonly string[]): readonly (readonly StepRow[])[]
  /** Forgets steps of tasks. Returns how many. */
  forget(ids: readonly string[], steps: ForgottenSteps): number
}
