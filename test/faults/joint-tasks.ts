import { setTimeout as sleep } from 'node:timers/promises'
import { FinalError } from '../../src/policy/index.js'
import { defineTask } from '../../src/task/index.js'
import { type Transaction, writeEffect } from './effects.js'

/** Of this many tasks, one fails for good, one fails once, and one throws whenever it is part of a call. */
const PERIOD = 50
/** The payload that kills its worker. */
export const KILLER = -1

/** How many of this many tasks end as dead letters. */
export const deadOf = (count: number): number => 2 * Math.ceil(count / PERIOD)

/** Tasks that are called together, each with a write that exists once. `losses` as in a policy. */
export function jointTask(losses: number) {
  return defineTask('joint', {
    together: { size: 20, within: '20ms', concurrency: 2 },
    policy: { attempts: 3, backoff: { base: '1ms' }, losses },
    handler: async (payloads: readonly number[], { tasks }) => {
      await sleep(5)
      if (payloads.includes(KILLER)) process.kill(process.pid, 'SIGKILL')
      if (payloads.some(n => n % PERIOD === 1)) throw new Error('A task of the call is bad.')
      const verdict = async (n: number, index: number) => {
        const task = tasks[index]
        if (n % PERIOD === 0) return new FinalError('No more')
        if (n % PERIOD === 2 && task?.attempt === 1) return new Error('Once more')
        await task?.once(`effect-${task.id}`, (tx: Transaction) => writeEffect(tx, task))
        return n
      }
      const results = await Promise.all(payloads.map(verdict))
      await sleep(5)
      return results
    },
  })
}
