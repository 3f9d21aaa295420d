export type { ChangeDay } from '../calendar/internal.js'
export type { ScheduledTask, ScheduleSpec } from '../store/internal.js'
export { type Schedule, type ScheduleOptions, schedule } from './schedule.js'
export { nextSlots, proveSchedule } from './slots.js'
