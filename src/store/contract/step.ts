/** A step of a task as a store keeps it: what the store does not read itself is JSON text. */
export interface StepRow {
  /** One of a kind in its task. */
  readonly name: string
  /** Whether it has succeeded. Then it never changes. */
  readonly isDone: boolean
  /** Its result as JSON text; `undefined` if it returned nothing, or has not succeeded. */
  readonly result: string | undefined
  /** Its attempts, as JSON text: see `rules/steps.ts`. */
  readonly state: string
}

/** A step to be recorded for a task that runs. */
export interface StepRecording extends StepRow {
  /** The id of the task. */
  readonly id: string
  /** The token that the claim issued. */
  readonly token: string
}

/** The steps that a redrive forgets. */
export interface ForgottenSteps {
  readonly name: string
  /** Whether those that were recorded after it are forgotten too. */
  readonly isAndLater: boolean
}

/** Records and reads the steps of tasks. */
export interface StepStore {
  /**
   * Records a step of a running task, unless it is done already. Returns false if the token does not hold any more: then
   * nothing has changed. Rejects with a `StoreBusyError` if another transaction holds the task.
   */
  recordStep(step: StepRecording): Promise<boolean>
  /** The steps of a task, in the order in which they were first recorded. */
  steps(id: string): Promise<StepRow[]>
  /** The steps of each task. */
  stepsOf(ids: readonly string[]): Promise<StepRow[][]>
}
