import { policies } from '../policy/index.js'
import type { Preset } from './preset.js'

/** Samples that pass through stages, each stage retried by itself. The library's own policy for stages. */
export const pipelines = {
  name: 'pipelines',
  policy: () => policies.stage,
} as const satisfies Preset
