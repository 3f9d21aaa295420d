import assert from 'node:assert/strict'
import type { ClaimedTask, Outcome, Store } from '../../store/index.js'
import { assertFields, assertSame, LEASE_MS, type StoreUnderTest } from './harness.js'
import { allTasks, checkInvariants } from './invariants.js'
import { StoreModel } from './model.js'

const STEPS = 120
const KINDS = ['k', 'l'] as const
const KEYS = ['', '', 't', 'u'] as const
const WORKERS = ['w1', 'w2', 'w3'] as const

/** How often, and with which random numbers. The seed of a run that fails is in its error. */
export interface StoreModelTestOptions {
  readonly seed: number
  readonly runs: number
}

/**
 * Drives a store and a simple model of it through the same random operations, worker deaths and steps of the clock, and
 * rejects where they differ. To see a failure again, give the seed that its error names, and one run.
 */
export async function storeModelTest(
  open: () => Promise<StoreUnderTest> | StoreUnderTest,
  { seed, runs }: StoreModelTestOptions,
): Promise<void> {
  for (let run = seed; run < seed + runs; run++) {
    const { store, advance, close } = await open()
    const log: string[] = []
    try {
      await new Driver(store, async ms => advance(ms), randomOf(run), log, await store.now()).drive()
    } catch (error) {
      throw new Error(`The store differs from its model with seed ${run}, at the last of:\n  ${log.join('\n  ')}`, {
        cause: error,
      })
    } finally {
      await store.close()
      await close?.()
    }
  }
}

class Driver {
  readonly #store: Store
  readonly #advance: (ms: number) => Promise<void>
  readonly #random: () => number
  readonly #log: string[]
  readonly #model: StoreModel
  /** Everything that was ever claimed: most of it can be settled once, and is stale afterwards. */
  readonly #claimed: ClaimedTask[] = []
  #ids = 0

  constructor(store: Store, advance: (ms: number) => Promise<void>, random: () => number, log: string[], now: number) {
    this.#store = store
    this.#advance = advance
    this.#random = random
    this.#log = log
    this.#model = new StoreModel(now)
  }

  async drive(): Promise<void> {
    const { enqueue, claim, settle, heartbeat, leave, cancel, redrive, pause, limit, step } = this.#operations()
    const often = [enqueue, enqueue, claim, claim, claim, claim, settle, settle, settle, settle, step, step]
    // Time for all leases to run out, so that all workers but one are dead.
    const die = async () => {
      await this.#passTime(LEASE_MS)
      await heartbeat()
    }
    const operations = [...often, die, heartbeat, heartbeat, leave, cancel, redrive, redrive, pause, limit]
    for (let count = 0; count < STEPS; count++) {
      await this.#pick(operations)()
      await this.#compare()
    }
    await this.#compareLedgers()
    await checkInvariants(this.#store)
  }

  #operations() {
    const store = this.#store
    const model = this.#model
    return {
      enqueue: async () => {
        const tasks = this.#some(5, () => this.#newTask())
        this.#log.push(`enqueue ${JSON.stringify(tasks)}`)
        const expected = tasks.map(({ runAt, ...task }) => ({
          id: task.id,
          isNew: model.add({ ...task, dueAt: runAt }),
        }))
        assert.deepEqual(await store.enqueue(tasks.map(task => ({ ...task, payload: '{}' }))), expected)
      },

      claim: async () => {
        const worker = this.#pick(WORKERS)
        const kinds = this.#chance(0.7) ? KINDS : this.#some(1, () => this.#pick(KINDS))
        const request = { worker, kinds, limit: this.#below(5), isIdle: model.isIdle(worker), leaseMs: LEASE_MS }
        const claim = await store.claim(request)
        this.#log.push(`claim ${JSON.stringify(request)} → ${claim.tasks.map(({ id }) => id)}, next ${claim.nextAt}`)
        model.claim(request, claim)
        this.#claimed.push(...claim.tasks)
      },

      settle: async () => {
        const settlements = this.#some(3, () => this.#settlement())
        this.#log.push(`settle ${JSON.stringify(settlements)}`)
        const expected = settlements.map(settlement => model.settle(settlement))
        assert.deepEqual(await store.settle(settlements), expected)
      },

      heartbeat: async () => {
        const worker = this.#pick(WORKERS)
        this.#log.push(`heartbeat ${worker}`)
        const expected = model.heartbeat(worker, LEASE_MS)
        const { cancelled, rescued } = await store.heartbeat(worker, LEASE_MS)
        assert.equal(rescued, expected.rescued, 'rescued')
        assertSame(cancelled, expected.cancelled)
      },

      leave: async () => {
        const worker = this.#pick(WORKERS)
        this.#log.push(`leave ${worker}`)
        model.leave(worker)
        await store.leave(worker)
      },

      cancel: async () => {
        const ids = this.#someIds()
        this.#log.push(`cancel ${ids}`)
        const expected = ids.filter(id => model.cancel(id))
        assert.deepEqual(await store.cancel(ids), expected)
      },

      redrive: async () => {
        const dead = [...model.tasks.values()].filter(({ status }) => status === 'dead').map(({ id }) => id)
        const ids = [...new Set([...dead.slice(0, 2), ...this.#someIds()])]
        this.#log.push(`redrive ${ids}`)
        const expected = ids.filter(id => model.redrive(id))
        assert.deepEqual(await store.redrive(ids, { who: 'ann' }), expected)
      },

      pause: async () => {
        const kind = this.#pick(KINDS)
        const isPaused = !model.pausedKinds.delete(kind)
        if (isPaused) model.pausedKinds.add(kind)
        this.#log.push(`pause ${kind} ${isPaused}`)
        await store.pause({ kind }, isPaused)
      },

      limit: async () => {
        const lane = { kind: this.#pick(KINDS), category: '', key: this.#pick(KEYS) }
        const concurrency = this.#chance(0.4) ? undefined : 1 + this.#below(3)
        this.#log.push(`limit ${JSON.stringify(lane)} ${concurrency}`)
        model.lane(lane).concurrency = concurrency ?? Infinity
        await store.limit(lane, concurrency === undefined ? {} : { concurrency })
      },

      step: () => this.#passTime(this.#below(this.#chance(0.1) ? LEASE_MS : 2000)),
    }
  }

  async #passTime(ms: number): Promise<void> {
    this.#log.push(`advance ${ms}`)
    await this.#advance(ms)
    this.#model.now += ms
  }

  async #compare(): Promise<void> {
    const tasks = await allTasks(this.#store)
    assert.equal(tasks.length, this.#model.tasks.size)
    for (const task of tasks) {
      const known = this.#model.tasks.get(task.id)
      assert.ok(known !== undefined, `${task.id} is not known`)
      assertFields(task, { ...this.#model.expected(known), id: known.id })
    }
  }

  async #compareLedgers(): Promise<void> {
    for (const { id, ledger } of this.#model.tasks.values()) {
      const rows = await this.#store.ledger(id)
      assert.deepEqual(
        rows.map(({ outcome }) => outcome),
        ledger,
        `the ledger of ${id}`,
      )
    }
  }

  #newTask() {
    const { now } = this.#model
    const id = this.#chance(0.1) ? `t${this.#below(this.#ids + 1)}` : `t${this.#ids++}`
    return {
      id,
      kind: this.#pick(KINDS),
      key: this.#pick(KEYS),
      priority: this.#below(2),
      submittedAt: this.#chance(0.5) ? now : now - this.#below(5000),
      runAt: this.#chance(0.7) ? now : now + this.#below(3000),
    }
  }

  #settlement() {
    const live = this.#claimed.filter(({ id, token }) => this.#model.tasks.get(id)?.run?.token === token)
    const task = this.#chance(0.9) && live.length > 0 ? this.#pick(live) : this.#pick(this.#claimed)
    if (task === undefined) return { id: 'unknown', token: 'none', outcome: { type: 'succeeded' } } as const
    const { id, token, attempts, changedAt } = task
    const settlement = { id, token, outcome: this.#outcome(task.isUndecided) }
    if (settlement.outcome.type === 'released' || (task.isUndecided && this.#chance(0.5))) return settlement
    const attempt = { attempt: attempts + 1, startedAt: changedAt, endedAt: this.#model.now, worker: 'w1' }
    return { ...settlement, attempt }
  }

  #outcome(isUndecided: boolean): Outcome {
    const delayMs = this.#chance(0.3) ? 0 : this.#below(3000)
    const retry = { type: 'retry', delayMs, isBackoff: this.#chance(0.5) } as const
    const decisions: readonly Outcome[] = [
      retry,
      retry,
      { type: 'dead', reason: 'attempts_exhausted' },
      { type: 'released' },
    ]
    const others: readonly Outcome[] = [
      { type: 'succeeded', result: '1' },
      { type: 'succeeded' },
      { type: 'skipped', reason: 'r' },
      { type: 'deferred', delayMs },
      { type: 'later', delayMs },
      { type: 'cancelled' },
    ]
    return this.#pick(isUndecided ? decisions : [...decisions, ...others])
  }

  #someIds(): string[] {
    return [...new Set(this.#some(2, () => `t${this.#below(this.#ids + 1)}`))]
  }

  #some<T>(max: number, make: () => T): T[] {
    return Array.from({ length: 1 + this.#below(max) }, make)
  }

  #pick<T>(from: readonly T[]): T {
    return from[this.#below(from.length)] as T
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end)
  }

  #chance(probability: number): boolean {
    return this.#random() < probability
  }
}

/** Random numbers from a seed: mulberry32. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
