export type { ChangeDay } from '../calendar/internal.js'
export type {
  CatchUp,
  Overlap,
  ScheduledTask,
  ScheduleSpec,
  ScheduleTimes,
} from '../store/internal.js'
export { type Schedule, type ScheduleOptions, schedule } from './schedule.js'
export { type NextSlotsOptions, nextSlots, proveSchedule } from './slots.js'
