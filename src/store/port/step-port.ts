import type { ForgottenSteps, StepRow } from '../contract/step.js'

/** The primitives of steps, beside `recordStep`, which is a hot verb. */
export interface StepPort {
  /** The steps of each task, in the order in which they were first recorded. */
  of(ids: readonly string[]): readonly (readonly StepRow[])[]
  /** Forgets the results of steps, so that they run again; their attempts stay on record. Returns how many. */
  forget(ids: readonly string[], steps: ForgottenSteps): number
}
