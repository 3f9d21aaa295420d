import { policies } from '../policy/index.js'
import type { Preset } from './preset.js'

/** Runs picked up from a database, retried for about two hours. The library's own policy for tasks. */
export const tasks = {
  name: 'tasks',
  policy: () => policies.task,
} as const satisfies Preset
