import { explainTask, type TaskExplanation } from '../../../operate/index.js'
import type { Store } from '../../../store/index.js'
import type { Environment } from '../../environment.js'
import type { CommonOptions } from '../shared/options.js'
import { loadTasks } from '../worker/load-work.js'

/** The options of a command that shows one task. */
export interface ShowOptions extends CommonOptions {
  readonly tasks?: string
}

/** Explains a task. The tasks of the project are loaded only if something of it is encoded. */
export async function explained(
  store: Store,
  id: string,
  { tasks: file }: ShowOptions,
  environment: Environment,
): Promise<TaskExplanation | undefined> {
  const task = await explainTask(store, id)
  if (task === undefined || task.unreadable === null) return task
  const tasks = await loadTasks(file, environment)
  return tasks === undefined ? task : explainTask(store, id, { tasks })
}
