import { randomFillSync } from 'node:crypto'

const COUNTER_BITS = 26
const RANDOM_BYTES = 10

/**
 * Creates ids that are ordered by time: UUIDs of version 7. Ids from one maker keep the order in which they were made,
 * even within a millisecond and when the clock goes back, so tasks that are submitted together run in the order
 * enqueued.
 */
export function taskIds(): (now: number) => string {
  const random = Buffer.alloc(RANDOM_BYTES * 256)
  let hex = ''
  let used = random.length
  let lastTime = -1
  let counter = 0
  // The part that the ids of a millisecond share, for the time that it stands for.
  let prefix = ''
  let prefixTime = -1

  return now => {
    if (used === random.length) {
      hex = randomFillSync(random).toString('hex')
      used = 0
    }
    const time = Math.floor(now)
    if (time > lastTime) {
      lastTime = time
      // Starts in the lower half of its range, so that there is room to count.
      counter = random.readUInt32BE(used) >>> (33 - COUNTER_BITS)
    } else if (++counter === 2 ** COUNTER_BITS) {
      lastTime++
      counter = 0
    }
    if (lastTime !== prefixTime) {
      prefixTime = lastTime
      const digits = lastTime.toString(16).padStart(12, '0')
      prefix = `${digits.slice(0, 8)}-${digits.slice(8)}-`
    }
    const tail = hex.slice(2 * used + 8, 2 * (used + RANDOM_BYTES))
    used += RANDOM_BYTES
    const high = (0x7000 | (counter >>> 14)).toString(16)
    const low = (0x8000 | (counter & 0x3fff)).toString(16)
    return `${prefix}${high}-${low}-${tail}`
  }
}
