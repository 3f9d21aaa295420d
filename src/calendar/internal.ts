// For the other folders of this package.

export { type ChangeDay, changeDays } from './prove.js'
export { timetable, timetables } from './timetable.js'
