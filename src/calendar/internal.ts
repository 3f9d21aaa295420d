// For the other folders of this package.

export { type ChangeDay, changeDays } from './prove.js'
export { TimeZone } from './time-zone.js'
export { timetable, timetables } from './timetable.js'
