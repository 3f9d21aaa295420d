import type { ForgottenSteps, StepRecording, StepRow } from '../contract/step.js'
import type { StepPort } from '../port/step-port.js'
import type { SqliteParts } from './port.js'
import type { Statements } from './statements.js'
import { held, placeOf } from './token.js'

/** Records a step where its token holds. Returns whether it does. Within a transaction. */
export function recordStep(statements: Statements, step: StepRecording): boolean {
  const { id, token, name, isDone, result = null, state } = step
  const place = placeOf(token)
  if (place === undefined) return false
  const isHeld = held(place, id)
  const hasSteps = statements.hasSteps.get(...isHeld)
  if (hasSteps === undefined) return false
  statements.recordStep.run(name, isDone ? 1 : 0, result, state, ...isHeld)
  if (hasSteps === 0) statements.noteSteps.run(place.seq)
  return true
}

/** The primitives of steps on SQLite. */
export class SqliteStepPort implements StepPort {
  readonly #statements: Statements

  constructor({ statements }: SqliteParts) {
    this.#statements = statements
  }

  of(ids: readonly string[]): StepRow[][] {
    return ids.map(id =>
      this.#statements.stepsOf.all(id).map(({ name, done, result, state }) => {
        return { name, isDone: done === 1, result: result ?? undefined, state }
      }),
    )
  }

  forget(ids: readonly string[], { name, isAndLater }: ForgottenSteps): number {
    return this.#statements.forgetSteps.run({ ids: JSON.stringify(ids), name, later: isAndLater ? 1 : 0 }).changes
  }
}
