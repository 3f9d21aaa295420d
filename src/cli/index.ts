export type { RedriveConfig } from './config.js'
