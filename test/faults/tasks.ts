import { appendFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { PolicyInput } from 'redrive'
import type { PostgresTransaction } from 'redrive/postgres'
import { defineTask, later, skip, type TaskContext } from 'redrive/task'
import type { StoreContract } from '../../src/store/internal.js'
import { PostgresStore } from '../../src/store/postgres/internal.js'
import type { Reach } from './deadly-store.js'
import { type Transaction, writeEffect } from './effects.js'
import { POISON_ERRORS, POISON_RESULTS, POISON_SKIPS } from './poison.js'

const QUICK: PolicyInput = { attempts: 4, backoff: { kind: 'exponential', base: '10ms', max: '40ms' }, jitter: 'full' }

/** Where the tasks of a scene leave their traces. */
export interface Surroundings {
  readonly folder: string
  readonly reach: Reach
  /** The pool that the handlers use for the application's own tables, on PostgreSQL. */
  readonly pool?: Pool
  readonly store?: StoreContract
}

interface WriteOptions {
  readonly ms?: number
  readonly failures?: number
}

/** All kinds of tasks in these tests. The processes run them; the tests enqueue them. */
export function makeTasks({ folder, reach, pool, store }: Surroundings) {
  /** Every start is on disk before anything else happens, whatever becomes of the process. */
  const started = (task: TaskContext) => {
    appendFileSync(join(folder, 'starts.log'), `${task.id} ${task.attempt} ${process.pid}\n`)
    reach('start')
  }
  /** The number of this run, from 1: the same attempt runs again when its worker has died. */
  const runOf = (task: TaskContext) => task.attempt + task.losses
  /** A write that exists once, however often its task runs. */
  const effect = async (task: TaskContext, key = `effect-${task.id}`) => {
    const write = (tx: Transaction) => writeEffect(tx, task, () => reach('effect: in its transaction'))
    await task.once(key, write)
    reach('effect: committed')
  }
  /** Does something within a transaction of its store. */
  const transaction = async (work: (tx: PostgresTransaction, store: PostgresStore) => Promise<void>) => {
    if (!(store instanceof PostgresStore)) throw new TypeError('This task needs PostgreSQL.')
    await store.transaction(tx => work(tx, store))
  }
  const signal = async (name: string) => {
    while (!existsSync(join(folder, name))) await sleep(10)
  }

  const aborted = (signal: AbortSignal) =>
    new Promise<void>(resolve => {
      if (signal.aborted) resolve()
      else signal.addEventListener('abort', () => resolve())
    })

  return {
    /** Works for a while, writes, and works for a while again. Fails its first attempts where it is told to. */
    write: defineTask('write', {
      policy: { ...QUICK, attempts: 6 },
      handler: async ({ ms = 0, failures = 0 }: WriteOptions, task) => {
        started(task)
        await sleep(ms)
        if (task.attempt <= failures) throw new Error('not yet')
        await effect(task)
        await sleep(ms)
        return task.attempt
      },
    }),
    /** As `write`, but writes and completes itself within one transaction. Each run waits for its file. */
    complete: defineTask('complete', {
      policy: { ...QUICK, attempts: 6 },
      handler: async ({ ms = 0, failures = 0, files = [] }: WriteOptions & { files?: string[] }, task) => {
        started(task)
        await sleep(ms)
        if (task.attempt <= failures) throw new Error('not yet')
        const file = files[runOf(task) - 1]
        if (file !== undefined) await signal(file)
        await transaction(async (tx, store) => {
          await writeEffect(tx, task, () => reach('effect: in its transaction'))
          await store.completeIn(tx, task.fence, { result: String(task.attempt) })
        })
        reach('effect: committed')
        await sleep(ms)
      },
    }),
    /** Two steps, the second of which fails once and then waits in the process. */
    steps: defineTask('steps', {
      policy: QUICK,
      handler: async (_: unknown, task) => {
        started(task)
        const made = (name: string, key: string) => {
          appendFileSync(join(folder, 'steps.log'), `${key}\n`)
          reach('step: effect')
          return `${name} made`
        }
        const one = await task.step('one', ({ key }) => made('one', key))
        const policy: PolicyInput = { attempts: 2, backoff: ['1s'], jitter: 'none' }
        const two = await task.step(
          'two',
          ({ key, attempt }) => {
            if (attempt === 1) {
              appendFileSync(join(folder, 'failed.log'), `${key}\n`)
              throw new Error('not yet')
            }
            return made('two', key)
          },
          { policy },
        )
        return [one, two]
      },
    }),
    /** Steps at the same time. If it is told to, another one fails among them, whose next attempt is due in an hour. */
    parallelSteps: defineTask('parallel-steps', {
      policy: QUICK,
      handler: async ({ waits = false }: { waits?: boolean }, task) => {
        started(task)
        const made = (name: string) =>
          task.step(name, async ({ key }) => {
            await sleep(5)
            appendFileSync(join(folder, 'steps.log'), `${key}\n`)
            reach('step: effect')
            return name
          })
        const failing = () => {
          appendFileSync(join(folder, 'failed.log'), `${task.id}\n`)
          throw new Error('not yet')
        }
        const policy: PolicyInput = { attempts: 2, backoff: ['1h'], jitter: 'none' }
        const late = waits ? [task.step('late', failing, { policy })] : []
        return Promise.all([...['a', 'b', 'c'].map(made), ...late])
      },
    }),
    /** Its first run waits within a step until the file `go` is there, and does not listen when it is told that its lease is over. */
    staleSteps: defineTask('stale-steps', {
      policy: QUICK,
      handler: async (_: unknown, task) => {
        started(task)
        const run = runOf(task)
        const note = (name: string) => appendFileSync(join(folder, 'steps.log'), `${name} ${run}\n`)
        const slow = task.step('slow', async () => {
          note('slow')
          if (run === 1) await signal('go')
          return `of run ${run}`
        })
        slow.catch(error => appendFileSync(join(folder, 'stale.log'), `${error.code}\n`))
        const result = await slow
        await task.step('next', () => note('next'))
        return result
      },
    }),
    /** Tells of itself, and goes on until it is killed; the next run ends at once. */
    noted: defineTask('noted', {
      policy: QUICK,
      handler: async (_: unknown, task) => {
        started(task)
        task.progress(0.5, 'halfway')
        task.log(`run ${runOf(task)}`)
        if (runOf(task) === 1) await signal('never')
      },
    }),
    /** Its first run writes, and does not end its transaction until the file `go` is there. */
    hold: defineTask('hold', {
      policy: QUICK,
      handler: async (_: unknown, task) => {
        started(task)
        await task.once(`effect-${task.id}`, async (tx: PostgresTransaction) => {
          await writeEffect(tx, task)
          appendFileSync(join(folder, 'held.log'), `${task.id}\n`)
          if (runOf(task) === 1) await signal('go')
        })
      },
    }),
    /** Takes all connections there are, for a while. */
    hoard: defineTask('hoard', {
      policy: QUICK,
      handler: async ({ ms }: { ms: number }, task) => {
        started(task)
        const clients = await Promise.all(Array.from({ length: pool?.options.max ?? 0 }, () => pool?.connect()))
        await sleep(ms)
        for (const client of clients) client?.release()
      },
    }),
    /** Its first run waits until the file `go` is there, and does not listen when it is told that its lease is over. */
    zombie: defineTask('zombie', {
      policy: QUICK,
      handler: async ({ othersWaitFor }: { othersWaitFor?: string }, task) => {
        started(task)
        if (runOf(task) === 1 && !existsSync(join(folder, 'zombie.log'))) {
          await signal('go')
          await aborted(task.signal)
        } else if (othersWaitFor !== undefined) {
          appendFileSync(join(folder, 'heir'), '')
          await signal(othersWaitFor)
        }
        // One write of its own, and one that all its runs share. It takes no notice when they are refused.
        const codeOf = (error: { code: string }) => error.code
        const refused = [
          await effect(task, `mine-${task.id}-${runOf(task)}`).then(() => '', codeOf),
          await effect(task).then(() => '', codeOf),
        ]
        const warning = task.signal.aborted ? String(task.signal.reason.code) : ''
        appendFileSync(join(folder, 'zombie.log'), `${JSON.stringify([runOf(task), warning, ...refused])}\n`)
      },
    }),
    /** Takes its time, and lets the event loop turn. */
    slow: defineTask('slow', {
      policy: QUICK,
      handler: async ({ ms }: { ms: number }, task) => {
        started(task)
        await sleep(ms)
        await effect(task)
      },
    }),
    /** Stops the event loop, on its first run: for a while, or until a file is there. */
    block: defineTask('block', {
      policy: QUICK,
      handler: async ({ ms = 10, file }: { ms?: number; file?: string }, task) => {
        started(task)
        const stop = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
        if (runOf(task) === 1) {
          do stop()
          while (file !== undefined && !existsSync(join(folder, file)))
        }
        await effect(task)
      },
    }),
    /** Has one attempt, which ends once the file `go` is there. */
    single: defineTask('single', {
      policy: { attempts: 1 },
      handler: async (_: unknown, task) => {
        started(task)
        await signal('go')
        await effect(task)
      },
    }),
    exit: defineTask('exit', {
      policy: { ...QUICK, attempts: 1 },
      handler: ({ code }: { code: number }, task) => {
        started(task)
        process.exit(code)
      },
    }),
    kill: defineTask('kill', {
      policy: { ...QUICK, attempts: 1 },
      handler: async ({ ms }: { ms: number }, task) => {
        started(task)
        await sleep(ms)
        process.kill(process.pid, 'SIGKILL')
      },
    }),
    echo: defineTask('echo', {
      policy: QUICK,
      handler: (payload: unknown, task) => {
        started(task)
        return payload
      },
    }),
    throw: defineTask('throw', {
      policy: { ...QUICK, attempts: 2 },
      handler: ({ what }: { what: string }, task) => {
        started(task)
        throw POISON_ERRORS[what]?.()
      },
    }),
    return: defineTask('return', {
      policy: QUICK,
      handler: ({ what }: { what: string }, task) => {
        started(task)
        return (POISON_RESULTS[what] ?? POISON_SKIPS[what])?.()
      },
    }),
    /** Ends in other ways than success and failure. */
    other: defineTask('other', {
      policy: QUICK,
      handler: ({ what }: { what: 'skip' | 'later' }, task) => {
        const isAgain = existsSync(join(folder, `later-${task.id}`))
        started(task)
        if (what === 'skip') return skip('nothing to do')
        if (isAgain) return 'done'
        appendFileSync(join(folder, `later-${task.id}`), '')
        return later('20ms')
      },
    }),
  }
}

export type Tasks = ReturnType<typeof makeTasks>
