import { OptionError } from 'redrive'
import { TaskQueue } from 'redrive/task'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from '../accounts.js'
import { POISON_ERRORS, POISON_RESULTS, POISON_SKIPS } from '../poison.js'
import type { Scene } from '../scene.js'

const LONGEST_ON_RECORD = 10_000

const nested = (depth: number) => {
  let value: unknown = 'deep'
  for (let level = 0; level < depth; level++) value = { in: [value] }
  return value
}

/** Payloads that JSON can hold, odd as they are: they come back as they went. */
const ODD: Readonly<Record<string, unknown>> = {
  null: null,
  'a __proto__ key': JSON.parse('{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}}'),
  'lone surrogates': { '\ud800': '\udfff and \ud83d' },
  'NUL and controls': '\0\u0001\u2028\u2029\u007f',
  'an empty key': { '': '' },
  'a nesting of 500': nested(500),
  'numbers at the edge': [Number.MAX_SAFE_INTEGER, -0.1, 5e-324, 1.7976931348623157e308],
  'half a megabyte': 'x'.repeat(2 ** 19),
  'a JSON text in a text': '{"not":"parsed"}',
  'what looks like SQL': "'); DROP TABLE task; --",
}

/** Texts that are no JSON, and that every store can hold. */
const NO_JSON: readonly string[] = ['', '{', 'undefined', '{"a":}', '[1', 'NaN']

const cyclic: Record<string, unknown> = {}
cyclic.self = cyclic

/** Payloads that JSON cannot hold, or not in this size: refused when they are enqueued. */
const IMPOSSIBLE: Readonly<Record<string, unknown>> = {
  'ten megabytes': 'x'.repeat(10 * 2 ** 20),
  'a cyclic object': cyclic,
  'a bigint': { n: 1n },
  NaN: { n: Number.NaN },
  Infinity: [Number.POSITIVE_INFINITY],
  'a function': { f: () => {} },
  'a symbol': Symbol('s'),
  'a Map': new Map([[1, 2]]),
  'an error': new Error('e'),
  'a nesting of 1 000 000': nested(1_000_000),
  'a toJSON that throws': {
    toJSON() {
      throw new Error('no')
    },
  },
}

/** Payloads, failures and results that would harm a worker, a store or a neighbour. */
export function poisonFaults(openScene: () => Promise<Scene>): void {
  let scene: Scene
  beforeEach(async () => {
    scene = await openScene()
  })
  afterEach(() => scene.close())

  /** Good tasks before and after the bad ones: they must not notice anything. */
  async function withNeighbours(addBad: () => Promise<unknown>): Promise<string[]> {
    const before = await scene.addMany(scene.tasks.write, Array(5).fill({ failures: 1 }))
    await addBad()
    const after = await scene.addMany(scene.tasks.write, Array(5).fill({}))
    return [...before, ...after]
  }

  async function expectUnharmed(neighbours: readonly string[]): Promise<void> {
    for (const id of neighbours) {
      expect(await scene.store.get(id)).toMatchObject({ status: 'succeeded' })
      expect((await scene.store.ledger(id)).filter(({ outcome }) => outcome === 'lost')).toEqual([])
    }
  }

  describe('a poison payload', { timeout: 300_000 }, () => {
    it('that JSON can hold comes to its handler as it was', async () => {
      const ids = new Map<string, string>()
      const neighbours = await withNeighbours(async () => {
        for (const [name, payload] of Object.entries(ODD)) ids.set(name, await scene.add(scene.tasks.echo, payload))
      })
      const worker = scene.start()
      await expectAllAccountedFor(scene)
      for (const [name, id] of ids) {
        const task = await scene.store.get(id)
        expect(task?.status, name).toBe('succeeded')
        expect(task?.result, name).toBe(JSON.stringify(ODD[name]))
      }
      expect(({} as { isAdmin?: boolean }).isAdmin, 'no prototype was touched').toBeUndefined()
      await expectUnharmed(neighbours)
      await worker.stop()
    })

    it('that JSON cannot hold, or not in this size, is refused when it is enqueued, with all that came with it', async () => {
      const queue = new TaskQueue(scene.store)
      for (const [name, payload] of Object.entries(IMPOSSIBLE)) {
        const adding = queue.enqueueMany(scene.tasks.echo, [{ payload: 1 }, { payload }, { payload: 2 }])
        const error = await adding.then(
          () => undefined,
          (reason: Error) => reason,
        )
        expect(error, name).toMatchObject({ code: 'payload_invalid' })
        expect(error?.message.length, name).toBeLessThan(500)
      }
      expect(await scene.store.count({})).toMatchObject({ waiting: 0 })
    })

    it('that was stored by somebody else, and is no JSON, is dead at once', async () => {
      const bad: string[] = []
      const neighbours = await withNeighbours(async () => {
        const added = await scene.store.enqueue(NO_JSON.map(payload => ({ kind: 'echo', payload })))
        bad.push(...added.map(({ id }) => id))
        for (const id of bad) scene.accepted.set(id, 4)
      })
      const worker = scene.start()
      await expectAllAccountedFor(scene)
      for (const id of bad) expect(await scene.store.get(id)).toMatchObject({ status: 'dead', reason: 'final_error' })
      await expectUnharmed(neighbours)
      await worker.stop()
    })
  })

  describe('a payload that no store can hold', () => {
    it.each(['\ud800', '"\0"'])(
      'is refused when it is enqueued, and others that share the transaction are not: %j',
      async bad => {
        const good = { kind: 'echo', payload: '1' }
        const results = await Promise.allSettled([
          scene.store.enqueue([good]),
          scene.store.enqueue([good, { kind: 'echo', payload: bad }]),
          scene.store.enqueue([good]),
        ])
        expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
        expect(results[1]).toMatchObject({ reason: expect.any(OptionError) })
        expect(await scene.store.count({})).toMatchObject({ waiting: 2 })
      },
    )
  })

  describe('a poison failure', { timeout: 300_000 }, () => {
    it('of any shape is on record, bounded, and harms nobody', async () => {
      const ids = new Map<string, string>()
      const neighbours = await withNeighbours(async () => {
        for (const what of Object.keys(POISON_ERRORS)) ids.set(what, await scene.add(scene.tasks.throw, { what }))
      })
      const worker = scene.start()
      await expectAllAccountedFor(scene)
      for (const [what, id] of ids) {
        const task = await scene.store.get(id)
        const ledger = await scene.store.ledger(id)
        expect(task?.status, what).toBe('dead')
        // An option that Redrive itself refuses is a mistake in the handler: it is final.
        const isMistake = what === 'a call later at no time'
        expect(
          ledger.map(({ outcome }) => outcome),
          what,
        ).toEqual(isMistake ? ['dead'] : ['retry', 'dead'])
        for (const { error = '', verdict } of ledger) {
          expect(error.length, what).toBeLessThan(LONGEST_ON_RECORD)
          expect(error.length, what).toBeGreaterThan(0)
          expect(verdict?.code.length, what).toBeLessThan(1000)
        }
      }
      await expectUnharmed(neighbours)
      expect(worker.errors).toBe('')
      expect(await worker.stop()).toMatchObject({ stale: 0 })
    })
  })

  describe('a poison result', { timeout: 300_000 }, () => {
    it('is a success all the same: the work is done, and not done again', async () => {
      const ids = new Map<string, string>()
      const neighbours = await withNeighbours(async () => {
        for (const what of Object.keys(POISON_RESULTS)) ids.set(what, await scene.add(scene.tasks.return, { what }))
      })
      const worker = scene.start()
      await expectAllAccountedFor(scene)
      for (const [what, id] of ids) {
        expect((await scene.store.get(id))?.status, what).toBe('succeeded')
        expect((await scene.store.ledger(id)).length, what).toBe(1)
      }
      await expectUnharmed(neighbours)
      expect(worker.errors).toBe('')
      expect(await worker.stop()).toMatchObject({ stale: 0 })
    })
  })

  describe('a poison skip', { timeout: 300_000 }, () => {
    it('is a skip with some reason, and does not hold up what is settled with it', async () => {
      const ids: string[] = []
      const neighbours = await withNeighbours(async () => {
        for (const what of Object.keys(POISON_SKIPS)) ids.push(await scene.add(scene.tasks.return, { what }))
      })
      const worker = scene.start()
      await expectAllAccountedFor(scene)
      for (const id of ids) expect(await scene.store.get(id)).toMatchObject({ status: 'skipped' })
      await expectUnharmed(neighbours)
      expect(await worker.stop()).toMatchObject({ stale: 0 })
    })
  })
}
