import { expect, it } from 'vitest'
import { deadLetters } from '../../test/dead-letters.js'
import { fingerprint } from '../fingerprint/internal.js'

import { MemoryStore, type StoreContract } from '../store/internal.js'
import { fakeClock } from '../testing/index.js'
import { operationNote, operationOutcome, operationTotal } from './operation-view.js'
import { startOperation } from './operations.js'
import { redriveDeadLetters } from './redrive.js'

const WHO = { who: 'ann' }

/** Lets every waiting task fail for good, each with a message. */
async function dieAgain(store: StoreContract, messageOf: (id: string) => string): Promise<void> {
  const rooms = [{ kinds: ['k'] }]
  const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 100, isIdle: true })
  const settlements = tasks.map(({ id, token }) => {
    const error = messageOf(id)
    const verdict = { class: 'final', code: 'E' } as const
    const group = fingerprint({ kind: 'k', code: 'E', error })
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w', verdict, error, group }
    return { id, token, attempt, outcome: { type: 'dead', reason: 'final_error' } as const }
  })
  await store.settle(settlements)
}

it('the outcome says what members that are dead again share only while all of them are there to tell', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  await deadLetters(
    store,
    ['a', 'b', 'c', 'd'].map(id => ({ id })),
  )
  const redrive = async (ids: readonly string[]) => {
    await clock.advance(1000)
    const { operation } = await redriveDeadLetters(store, { ids }, { ...WHO, perSecond: 1000, clock })
    return operation?.id ?? ''
  }
  const outcome = async (id: string) => operationOutcome(store, (await store.operations.get(id)) ?? expect.fail())

  const first = await redrive(['a', 'b', 'c', 'd'])
  await dieAgain(store, () => 'no such street')
  expect(await outcome(first)).toBe('4 moved: 4 dead again, all in one group.')

  const second = await redrive(['a', 'b', 'c', 'd'])
  await dieAgain(store, id => (id < 'c' ? 'no such street' : 'no such town'))
  expect(await outcome(second)).toBe('4 moved: 4 dead again, all of them E.')
  // Somebody redrives those of one group: the others are not all that died.
  await redrive(['a', 'b'])
  expect(await outcome(second)).toBe('4 moved: 4 dead again.')
})

it('an operation on named letters has no more members than its limit', async () => {
  const store = new MemoryStore({ clock: fakeClock() })
  const ids = ['a', 'b', 'c']
  await deadLetters(
    store,
    ids.map(id => ({ id })),
  )
  const operation = await startOperation(store, 'redrive', { ids }, { ...WHO, limit: 2 })
  expect(await operationTotal(store, operation)).toBe(2)
})

it('says that nobody carries an operation out while only a notifier is alive', async () => {
  const store = new MemoryStore({ clock: fakeClock() })
  await deadLetters(store, [{ id: 'a' }])
  const operation = await startOperation(store, 'redrive', { all: true }, WHO)
  await store.heartbeat({ worker: 'n', leaseMs: 60_000, kinds: ['notify:slack'] })
  expect(operationNote(operation, await store.workers(), await store.now())).toBe(
    `Nobody carries it out: no worker is running. Start one, or run: redrive ops continue ${operation.id}`,
  )
})
