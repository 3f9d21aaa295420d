export type { Preset } from './preset.js'
export { presetNamed, presets } from './presets.js'
