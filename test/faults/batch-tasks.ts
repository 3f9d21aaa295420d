import { FinalError } from '../../src/policy/index.js'
import { type BatchEnd, defineTask, type TaskContext } from '../../src/task/index.js'

/** Of this many members, one adds two others and dies, and one fails once. */
const PERIOD = 20

/** The payloads of a batch. */
export function* members(count: number): Iterable<{ readonly payload: number }> {
  for (let payload = 0; payload < count; payload++) yield { payload }
}

/** How many tasks a batch of this many members has when all have ended, and how many of them are dead. */
export function expected(count: number): { readonly total: number; readonly dead: number } {
  const each = Math.ceil(count / PERIOD)
  return { total: count + 2 * each, dead: each }
}

/** Tasks of a batch: most succeed, some fail once, some die, and some add others. */
export function batchTasks() {
  const grow = defineTask('grow', { policy: { losses: 1000 }, handler: (_: number) => {} })
  const work = defineTask('work', {
    // However often its workers are killed, none of them dies of that.
    policy: { attempts: 3, backoff: { base: '1ms' }, losses: 1000 },
    handler: async (n: number, { attempt, batch }: TaskContext) => {
      const place = n % PERIOD
      if (place === 0) {
        await batch?.add(grow, [{ payload: n }, { payload: n + 1 }])
        throw new FinalError('No more')
      }
      if (place === 1 && attempt === 1) throw new Error('Once more')
    },
  })
  const report = defineTask('report', { handler: (end: BatchEnd) => end })
  return { work, grow, report }
}
