import assert from 'node:assert/strict'
import type { NewOperation, OperationRecord, OperationStep, StoreContract } from '../../src/store/internal.js'
import { kill, start } from './harness.js'

/** Who acts, and why. */
export const ANN = { who: 'ann', why: 'the bug is fixed' }

/** Kills tasks with these ids, a millisecond apart, so that each has an age of its own. */
export async function killAll(
  store: StoreContract,
  advance: (ms: number) => Promise<void>,
  tasks: readonly {
    readonly id: string
    readonly kind?: string
    readonly category?: string
    readonly key?: string
    readonly code?: string
    readonly payload?: string
  }[],
): Promise<void> {
  for (const { code, ...task } of tasks) {
    await kill(store, await start(store, task), code)
    await advance(1)
  }
}

/** Creates a redrive of all dead letters. */
export async function createRedrive(store: StoreContract, more: Partial<NewOperation> = {}): Promise<OperationRecord> {
  const until = await store.now()
  return store.operations.create({ act: 'redrive', set: { filter: {}, until }, by: ANN, ...more })
}

/** Takes the lease of an operation that is free. */
export async function take(store: StoreContract, id: string): Promise<string> {
  const taken = await store.operations.take(id, 'driver', 1000)
  assert.ok(taken !== undefined, 'the lease should be free')
  return taken.token
}

/** A step that moves members, and notes nothing else. */
export async function move(
  store: StoreContract,
  { id, progress, status }: OperationRecord,
  token: string,
  ids: readonly string[],
  edits?: OperationStep['edits'],
) {
  const step: OperationStep = { leaseMs: 1000, move: ids, edits, status, progress }
  const stepped = await store.operations.step(id, token, step)
  assert.ok(stepped !== undefined, 'the step should be taken')
  return stepped
}
