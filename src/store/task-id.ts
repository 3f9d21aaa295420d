import { randomFillSync } from 'node:crypto'

const COUNTER_BITS = 26
const RANDOM_BYTES = 10

/**
 * Makes ids that are ordered by time: UUIDs of version 7. Ids from one maker keep the order in which they were made, even
 * within a millisecond and when the clock goes back, so tasks that are submitted together run in the order enqueued.
 */
export function taskIds(): (now: number) => string {
  const random = Buffer.alloc(RANDOM_BYTES * 256)
  let used = random.length
  let lastTime = -1
  let counter = 0

  return now => {
    if (used === random.length) {
      randomFillSync(random)
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
    const tail = random.toString('hex', used + 4, used + RANDOM_BYTES)
    used += RANDOM_BYTES

    const hex = lastTime.toString(16).padStart(12, '0')
    const high = (0x7000 | (counter >>> 14)).toString(16)
    const low = (0x8000 | (counter & 0x3fff)).toString(16)
    return `${hex.slice(0, 8)}-${hex.slice(8)}-${high}-${low}-${tail}`
  }
}
