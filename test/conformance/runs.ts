import type { StoreBehaviours } from './harness.js'
import { BUDGETS } from './runs/budgets.js'
import { CANCELS } from './runs/cancels.js'
import { CHANGES } from './runs/changes.js'
import { ENDINGS } from './runs/endings.js'
import { LIFE } from './runs/life.js'
import { OUTPUTS } from './runs/outputs.js'
import { READERS } from './runs/readers.js'
import { REPROCESS } from './runs/reprocess.js'
import { RETENTION } from './runs/retention.js'

export const RUNS: StoreBehaviours = {
  ...LIFE,
  ...READERS,
  ...ENDINGS,
  ...BUDGETS,
  ...CHANGES,
  ...CANCELS,
  ...REPROCESS,
  ...OUTPUTS,
  ...RETENTION,
}
