import { appendFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PolicyInput } from 'redrive'
import type { SqliteStore } from 'redrive/sqlite'
import { defineTask, later, skip, type TaskContext } from 'redrive/task'
import type { Reach } from './deadly-store.js'
import { POISON_ERRORS, POISON_RESULTS, POISON_SKIPS } from './poison.js'

const QUICK: PolicyInput = { attempts: 4, backoff: { kind: 'exponential', base: '10ms', max: '40ms' }, jitter: 'full' }

/** Where the tasks of a scene leave their traces. */
export interface Surroundings {
  readonly folder: string
  readonly store: SqliteStore
  readonly reach: Reach
}

/** All kinds of tasks in these tests. The processes run them; the tests enqueue them. */
export function makeTasks({ folder, store, reach }: Surroundings) {
  /** Every start is on disk before anything else happens, whatever becomes of the process. */
  const started = (task: TaskContext) => {
    appendFileSync(join(folder, 'starts.log'), `${task.id} ${task.attempt} ${process.pid}\n`)
    reach('start')
  }
  /** A write that exists once, however often its task runs. */
  const effect = async (task: TaskContext, key = `effect-${task.id}`) => {
    const write = (db: Parameters<Parameters<SqliteStore['once']>[1]>[0]) => {
      db.prepare('INSERT INTO effect (task, attempt) VALUES (?, ?)').run(task.id, task.attempt)
      reach('effect: in its transaction')
    }
    await store.once(key, write, { fence: task.fence })
    reach('effect: committed')
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
      handler: async ({ ms = 0, failures = 0 }: { ms?: number; failures?: number }, task) => {
        started(task)
        await sleep(ms)
        if (task.attempt <= failures) throw new Error('not yet')
        await effect(task)
        await sleep(ms)
        return task.attempt
      },
    }),
    /** Its first attempt waits until the file `go` is there, and does not listen when it is told that its lease is over. */
    zombie: defineTask('zombie', {
      policy: QUICK,
      handler: async ({ othersWaitFor }: { othersWaitFor?: string }, task) => {
        started(task)
        if (task.attempt === 1) {
          await signal('go')
          await aborted(task.signal)
        } else if (othersWaitFor !== undefined) {
          appendFileSync(join(folder, 'heir'), '')
          await signal(othersWaitFor)
        }
        // One write of its own, and one that all its attempts share. It takes no notice when they are refused.
        const codeOf = (error: { code: string }) => error.code
        const refused = [
          await effect(task, `mine-${task.id}-${task.attempt}`).then(() => '', codeOf),
          await effect(task).then(() => '', codeOf),
        ]
        const warning = task.signal.aborted ? String(task.signal.reason.code) : ''
        appendFileSync(join(folder, 'zombie.log'), `${JSON.stringify([task.attempt, warning, ...refused])}\n`)
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
    /** Stops the event loop, on its first attempt. */
    block: defineTask('block', {
      policy: QUICK,
      handler: async ({ ms }: { ms: number }, task) => {
        started(task)
        if (task.attempt === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
        await effect(task)
      },
    }),
    exit: defineTask('exit', {
      policy: { ...QUICK, attempts: 3 },
      handler: ({ code }: { code: number }, task) => {
        started(task)
        process.exit(code)
      },
    }),
    kill: defineTask('kill', {
      policy: { ...QUICK, attempts: 3 },
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
