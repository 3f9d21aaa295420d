import { setTimeout as sleep } from 'node:timers/promises'
import { StoreUnavailableError } from 'redrive/store'
import { describe, expect, it } from 'vitest'
import { openPostgres } from '../../src/store/postgres/internal.js'
import { type NetworkProxy, startProxy } from '../services/proxy.js'
import { expectAllAccountedFor } from './accounts.js'
import type { ChildOptions } from './child.js'
import type { Child } from './child-process.js'
import { ownPostgres } from './own-postgres.js'
import { LEASE_MS, Scene, until } from './scene.js'
import { diceOf } from './seed.js'

/** Longer than the network is down: nobody is to be taken for dead. */
const LONG_LEASE_MS = 20_000
/** Long enough for a busy machine to answer in time. */
const TIMEOUT_MS = 1200
const CUTS = 15
const HOLES = 2

const dice = diceOf('a network that fails')
const postgres = ownPostgres()

/** A scene whose workers find the database behind a proxy. The scene itself has a way of its own. */
interface Network {
  readonly scene: Scene
  readonly proxy: NetworkProxy
  readonly url: string
  /** Starts workers, and waits until they are ready. */
  start(count: number, options?: Partial<ChildOptions>): Promise<Child[]>
}

/** A test with a network of its own. Tests here wait for most of their time, so they run side by side. */
const onNetwork =
  <Case>(test: (network: Network, given: Case) => Promise<void>) =>
  async (given: Case) => {
    const scene = await Scene.on(await postgres.server.createDatabase())
    const proxy = await startProxy(scene.url)
    const url = proxy.through(scene.url)
    const start = async (count: number, options: Partial<ChildOptions> = {}) => {
      const workers = Array.from({ length: count }, () => scene.start({ url, leaseMs: LONG_LEASE_MS, ...options }))
      await Promise.all(workers.map(({ ready }) => ready))
      return workers
    }
    try {
      await test({ scene, proxy, url, start }, given)
    } finally {
      await proxy.close()
      await scene.close()
    }
  }

const payloads = (count: number) =>
  Array.from({ length: count }, () => ({ ms: dice.between(0, 15), failures: dice.pick([0, 0, 0, 1]) }))

async function expectAlive(workers: readonly Child[]): Promise<void> {
  for (const worker of workers) {
    expect(worker.isOver, worker.errors).toBe(false)
    await worker.stop()
  }
}

/** How often a task started, and what each run came to. */
async function historyOf(scene: Scene, id: string) {
  const starts = scene.starts().filter(start => start.id === id).length
  const ledger = await scene.store.ledger(id)
  return { starts, outcomes: ledger.map(({ outcome }) => outcome) }
}

describe.concurrent('a connection that is cut after the commit and before the answer', { timeout: 300_000 }, () => {
  it(
    'leaves an enqueue unknown; asked again with its id, the store says that it is there',
    onNetwork(async ({ scene, proxy, url }) => {
      const store = await openPostgres(url)
      const task = { kind: 'write', id: 'mine', payload: '{}' }
      const cut = proxy.cutBeforeAnswer('SELECT 1')
      await expect(store.enqueue([task])).rejects.toBeInstanceOf(StoreUnavailableError)
      await cut
      expect(await store.enqueue([task])).toMatchObject([{ id: 'mine', isNew: false }])
      expect(await scene.store.count({})).toMatchObject({ waiting: 1 })
      await store.close()
    }),
  )

  it(
    'leaves a transaction of the caller’s own unknown; asked again, its tasks are there once',
    onNetwork(async ({ scene, proxy, url }) => {
      const store = await openPostgres(url)
      const order = () => store.once('order', client => store.enqueueIn(client, [{ kind: 'write', payload: '{}' }]))
      const cut = proxy.cutBeforeAnswer('COMMIT')
      await expect(order()).rejects.toBeInstanceOf(StoreUnavailableError)
      await cut
      expect(await order()).toEqual([{ id: expect.any(String), isNew: true, outcome: 'created' }])
      expect(await scene.store.count({})).toMatchObject({ waiting: 1 })
      await store.close()
    }),
  )

  // Each is known by a text in its answer.
  it.for([
    { verb: 'claim', kind: 'write', text: '"write"' },
    { verb: 'settle', kind: 'write', text: 'is_any_bounded' },
    { verb: 'heartbeat', kind: 'write', text: '"rescued"' },
    { verb: 'once', kind: 'write', text: 'COMMIT' },
    { verb: 'completeIn', kind: 'complete', text: 'COMMIT' },
  ] as const)(
    'of $verb: nothing is stuck, nothing is done twice, no attempt is lost',
    onNetwork(async ({ scene, proxy, start }, { verb, kind, text }) => {
      const workers = await start(1, { leaseMs: 3000 })
      const cut = proxy.cutBeforeAnswer(text)
      const ids = await scene.addMany(scene.tasks[kind], Array(6).fill({ ms: 20 }))
      await cut
      await expectAllAccountedFor(scene)
      await expectAlive(workers)
      for (const id of ids) {
        const { starts, outcomes } = await historyOf(scene, id)
        // A handler that is not told whether its write was committed has failed; its next attempt finds the write there.
        if (verb === 'once' && starts === 2) expect(outcomes).toEqual(['retry', 'succeeded'])
        else expect({ starts, outcomes }).toEqual({ starts: 1, outcomes: ['succeeded'] })
      }
    }),
  )
})

describe.concurrent('a network', { timeout: 300_000 }, () => {
  it(
    `that cuts all connections ${CUTS} times: all is done, each write exists once`,
    onNetwork(async ({ scene, proxy, start }) => {
      const workers = await start(3)
      for (let round = 0; round < CUTS; round++) {
        await scene.addMany(dice.pick([scene.tasks.write, scene.tasks.complete]), payloads(8))
        await sleep(dice.between(20, 200))
        proxy.cut()
      }
      await expectAllAccountedFor(scene)
      await expectAlive(workers)
    }),
  )

  it(
    'that is a black hole for longer than the timeout: calls fail, and all is done once it is repaired',
    onNetwork(async ({ scene, proxy, url, start }) => {
      const workers = await start(2, { timeoutMs: TIMEOUT_MS })
      const store = await openPostgres(url, { timeout: TIMEOUT_MS })
      for (let round = 0; round < HOLES; round++) {
        const ids = await scene.addMany(dice.pick([scene.tasks.write, scene.tasks.complete]), payloads(40))
        await until('they are at it', () => scene.starts().some(({ id }) => ids.includes(id)))
        proxy.blackHole()
        await expect(store.now()).rejects.toBeInstanceOf(StoreUnavailableError)
        await sleep(dice.between(0, TIMEOUT_MS))
        proxy.repair()
      }
      await expectAllAccountedFor(scene)
      await expectAlive(workers)
      await store.close()
    }),
  )

  it(
    'that swallowed a worker in the middle of a transaction: the server ends that, and another does the task',
    onNetwork(async ({ scene, proxy, start }) => {
      const [worker] = await start(1, { leaseMs: LEASE_MS, timeoutMs: TIMEOUT_MS })
      const id = await scene.add(scene.tasks.hold, {})
      await until('it is within its transaction', () => scene.lines('held.log').includes(id))
      proxy.blackHole()
      await worker?.kill()
      scene.start()
      await expectAllAccountedFor(scene)
      expect(await historyOf(scene, id)).toEqual({ starts: 2, outcomes: ['lost', 'succeeded'] })
      expect(await scene.effects()).toEqual(new Map([[id, 1]]))
    }),
  )

  it(
    'that makes every call two seconds slower: all is done, and nothing twice',
    onNetwork(async ({ scene, proxy, start }) => {
      const workers = await start(2)
      proxy.delayMs = 1000
      const ids = [
        ...(await scene.addMany(scene.tasks.echo, [1, 2, 3])),
        await scene.add(scene.tasks.complete, {}),
        await scene.add(scene.tasks.throw, { what: 'null' }),
      ]
      await expectAllAccountedFor(scene)
      proxy.delayMs = 0
      await expectAlive(workers)
      // One of them fails, and is given a second attempt.
      expect(scene.starts()).toHaveLength(ids.length + 1)
      expect(await scene.store.count({})).toMatchObject({ succeeded: ids.length - 1, dead: 1 })
    }),
  )
})
