import type { StoreContract } from '../../src/store/internal.js'
import type { PostgresStore } from '../../src/store/postgres/internal.js'
import { SqliteStore } from '../../src/store/sqlite/internal.js'

/** Where a worker process can be made to die: in the order in which a task passes them. */
export const POINTS = [
  'claim: called',
  'claim: in its transaction',
  'claim: committed',
  'start',
  'effect: in its transaction',
  'effect: committed',
  'settle: called',
  'settle: in its transaction',
  'settle: committed',
  'heartbeat: in its transaction',
] as const

/** The same for the steps of a task. */
export const STEP_POINTS = ['step: effect', 'step: committed', 'step: failure committed', 'step: waits'] as const

export type Point = (typeof POINTS)[number] | (typeof STEP_POINTS)[number]

/** Says that a point has been reached. It may not return. */
export type Reach = (point: Point) => void

/** Kills this process, as `kill -9` does, when it reaches a point for the n-th time. */
export function dieAt({ point, time }: { readonly point: Point; readonly time: number }): Reach {
  let times = 0
  return reached => {
    if (reached === point && ++times === time) process.kill(process.pid, 'SIGKILL')
  }
}

/** A store that says where it is in the life of a task. */
export function deadlyStore<S extends SqliteStore | PostgresStore>(store: S, reach: Reach): S {
  const inSameTransaction = (point: Point) => {
    // Jobs of one turn share a transaction, in their order: this one comes after the verb's own, before the commit. If the
    // verb's took long, on a busy machine, it comes in the next one.
    if (store instanceof SqliteStore) void store.once(crypto.randomUUID(), () => reach(point))
    // By then the call is on its way, and the server is at it; the answer is not there yet.
    else setImmediate(() => setImmediate(() => reach(point)))
  }

  const verbs: Partial<StoreContract> = {
    async claim(request) {
      reach('claim: called')
      const claiming = store.claim(request)
      inSameTransaction('claim: in its transaction')
      const claim = await claiming
      if (claim.tasks.length > 0) reach('claim: committed')
      return claim
    },
    async settle(settlements) {
      reach('settle: called')
      const settling = store.settle(settlements)
      inSameTransaction('settle: in its transaction')
      const settled = await settling
      reach('settle: committed')
      return settled
    },
    async recordStep(step) {
      const isRecorded = await store.recordStep(step)
      reach('step: committed')
      if (!step.isDone) reach('step: failure committed')
      // It waits for a second.
      if (!step.isDone) setTimeout(() => reach('step: waits'), 50)
      return isRecorded
    },
    async heartbeat(beat) {
      const beating = store.heartbeat(beat)
      inSameTransaction('heartbeat: in its transaction')
      return beating
    },
  }
  return new Proxy(store, {
    get(target, name) {
      const own = Reflect.get(verbs, name)
      if (own !== undefined) return own
      const value = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
