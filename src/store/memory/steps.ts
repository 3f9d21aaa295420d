import type { ForgottenSteps, StepRecording, StepRow } from '../contract/step.js'
import type { StepPort } from '../port/step-port.js'
import type { MemoryTask } from './task.js'

/** Records a step where its token holds. Returns whether it does. */
export function recordStep(task: MemoryTask | undefined, step: StepRecording): boolean {
  const { token, name, isDone, result, state } = step
  if (task === undefined || task.lease?.token !== token) return false
  if (task.steps.get(name)?.isDone !== true) task.steps.set(name, { name, isDone, result, state })
  return true
}

/** The primitives of steps in memory. */
export class MemoryStepPort implements StepPort {
  readonly #task: (id: string) => MemoryTask | undefined

  constructor(task: (id: string) => MemoryTask | undefined) {
    this.#task = task
  }

  of(ids: readonly string[]): StepRow[][] {
    return ids.map(id => [...(this.#task(id)?.steps.values() ?? [])])
  }

  forget(ids: readonly string[], { name, isAndLater }: ForgottenSteps): number {
    let gone = 0
    for (const id of new Set(ids)) {
      const steps = this.#task(id)?.steps
      const names = [...(steps?.keys() ?? [])]
      const first = names.indexOf(name)
      if (steps === undefined || first < 0) continue
      for (const forgotten of names.slice(first, isAndLater ? undefined : first + 1)) {
        const step = steps.get(forgotten)
        if (step?.isDone !== true) continue
        steps.set(forgotten, { ...step, isDone: false, result: undefined })
        gone++
      }
    }
    return gone
  }
}
