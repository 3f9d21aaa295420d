import { timetables } from '../../src/calendar/internal.js'
import { backfillSchedule } from '../../src/operate/index.js'
import { openStore } from './open-store.js'
import { shiftClock } from './shifted-clock.js'

/** Fires schedules until it is killed, or backfills one. */
const { url, clockShiftMs = 0, backfill } = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '{}')
if (clockShiftMs !== 0) shiftClock(clockShiftMs)
const store = await openStore(url)
const known = timetables()
if (backfill !== undefined) {
  const { name, from, to } = backfill
  const onProgress = () => console.log('ready')
  await backfillSchedule(store, name, { from, to }, { who: 'anna', perSecond: 1000, onProgress })
  process.exit()
}
for (let round = 0; ; round++) {
  // In small transactions, so that a kill may fall between them.
  const { hasMore } = await store.schedules.fire(3, known)
  if (round === 1) console.log('ready')
  if (!hasMore) await new Promise(resolve => setTimeout(resolve, 5))
}
