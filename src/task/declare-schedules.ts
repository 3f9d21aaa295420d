import { loadTimetables } from '../engine/internal.js'
import { OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { ScheduleSpec, ScheduleStore } from '../store/internal.js'
import type { DeclaredTask } from './declare-task.js'
import { PayloadError } from './errors.js'
import { payloadCheck } from './standard-schema.js'

/** A schedule that a worker declares. Made by `schedule()`. */
export interface DeclaredSchedule {
  /** Its name. */
  readonly name: string
  /** All of it as plain data. */
  readonly spec: ScheduleSpec
  /** The task that it enqueues. */
  readonly task: DeclaredTask
}

/** Declares the schedules of a worker to its store. Rejects if a payload does not fit its task. */
export async function declareSchedules(
  store: ScheduleStore,
  schedules: readonly DeclaredSchedule[],
  { name: worker, release }: { readonly name: string; readonly release?: string | undefined },
): Promise<void> {
  if (schedules.length === 0) return
  const specs = [...new Set(schedules)].map(({ spec }) => spec)
  const twice = specs.find(({ name }, n) => specs.findIndex(other => other.name === name) !== n)
  if (twice !== undefined) {
    throw new OptionError(
      'schedules',
      `There are two schedules with the name ${quoted(twice.name)}. Give one another name.`,
    )
  }
  for (const { name, task, spec } of schedules) {
    const problem = await payloadCheck(task)?.(JSON.parse(spec.task.payload))
    if (problem !== undefined) throw new PayloadError(task.kind, `${problem} (in the schedule ${quoted(name)})`)
  }
  const outcomes = await store.declare(specs, { worker, release }, await loadTimetables())
  const kept = specs.filter((_, n) => outcomes[n] === 'kept').map(({ name }) => quoted(name))
  if (kept.length === 0) return
  const text = `A newer release has declared these schedules otherwise, and its declaration stays: ${kept.join(', ')}.`
  process.emitWarning(text, { type: 'RedriveWarning', code: 'schedule_kept' })
}
