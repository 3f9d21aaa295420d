import { timetables } from '../../src/calendar/internal.js'
import { openStore } from './open-store.js'

/** Fires schedules until it is killed. */
const { url } = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '{}')
const store = await openStore(url)
const known = timetables()
for (let round = 0; ; round++) {
  // In small transactions, so that a kill may fall between them.
  const { hasMore } = await store.schedules.fire(3, known)
  if (round === 1) console.log('ready')
  if (!hasMore) await new Promise(resolve => setTimeout(resolve, 5))
}
