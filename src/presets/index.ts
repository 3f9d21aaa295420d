export type { Env } from './env.js'
export type { Preset, SweeperSettings } from './preset.js'
export { presetNamed, presets } from './presets.js'
