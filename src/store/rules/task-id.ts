import { randomFillSync } from 'node:crypto'

/** The digits of ids, in their order as text. */
const DIGITS = '0123456789abcdefghijklmnopqrstuv'
const BASE = DIGITS.length

/** The digits of each part: 35 trillion milliseconds last until the year 3084. */
const TIME = 9
const COUNTER = 5
const RANDOM = 8

const COUNTER_END = BASE ** COUNTER

/**
 * Creates ids that are ordered by time: 22 letters and digits for the millisecond, a counter and a random number. They are
 * short because every table and index of a task repeats them. Ids from one maker keep the order in which they were made,
 * even within a millisecond and when the clock goes back, so tasks that are submitted together run in the order enqueued.
 */
export function taskIds(): (now: number) => string {
  const random = Buffer.alloc(RANDOM * 256)
  let tails = ''
  let used = random.length
  let time = -1
  let counter = 0
  // All digits up to the last one of the counter: the next ids share them.
  let prefix = ''

  return now => {
    if (used === random.length) {
      tails = randomDigits(random)
      used = 0
    }
    counter++
    if (now >= time + 1 || counter === COUNTER_END) {
      time = Math.max(Math.floor(now), time + 1)
      // Starts in the lower half of its range, so that there is room to count.
      counter = Math.floor((Math.random() * COUNTER_END) / 2)
      prefix = ''
    }
    const last = counter % BASE
    if (last === 0 || prefix === '') prefix = digits(time, TIME) + digits(Math.floor(counter / BASE), COUNTER - 1)
    const tail = tails.slice(used, used + RANDOM)
    used += RANDOM
    return prefix + DIGITS[last] + tail
  }
}

function digits(value: number, length: number): string {
  return value.toString(BASE).padStart(length, '0')
}

function randomDigits(bytes: Buffer): string {
  randomFillSync(bytes)
  for (const [n, byte] of bytes.entries()) bytes[n] = DIGITS.charCodeAt(byte % BASE)
  return bytes.toString('latin1')
}
