import assert from 'node:assert/strict'
import type { NewTask, Retention } from '../../src/store/index.js'
import type { StoreContract } from '../../src/store/internal.js'
import type { ModelTask, StoreModel } from './model.js'

interface ModelBatch {
  position: number
  isFull: boolean
  endings: number
  endedAt: number | undefined
  hasDead: boolean
}

/** What batches of a store should be, written as simply as possible. */
export class BatchModel {
  readonly #batches = new Map<string, ModelBatch>()
  readonly #model: StoreModel

  constructor(model: StoreModel) {
    this.#model = model
  }

  /** The position of the next member that a producer adds. */
  positionOf(name: string): number {
    return this.#batches.get(name)?.position ?? 0
  }

  fill(name: string, tasks: readonly NewTask[], isEnd: boolean): { added: number; isFull: boolean } {
    const none = { position: 0, isFull: false, endings: 0, endedAt: undefined, hasDead: false }
    const batch = this.#batches.get(name) ?? none
    if (batch.isFull) return { added: 0, isFull: true }
    this.#batches.set(name, batch)
    const id = (n: number) => `batch:${name}:${String(batch.position + n).padStart(12, '0')}`
    const added = tasks.filter((task, n) => this.#model.add({ ...task, id: id(n) })).length
    batch.position += tasks.length
    batch.isFull = isEnd
    this.check(name)
    return { added, isFull: false }
  }

  check(name: string): void {
    const batch = this.#batches.get(name)
    if (batch === undefined || !batch.isFull || batch.endedAt !== undefined) return
    const members = this.#membersOf(name)
    if (members.some(({ status }) => status === 'waiting' || status === 'running')) return
    batch.endings++
    batch.endedAt = this.#model.now
    batch.hasDead = members.some(({ status }) => status === 'dead')
  }

  /** These tasks were cancelled, discarded, completed or failed, as far as they could be. */
  actedOn(ids: readonly string[]): void {
    for (const name of namesOf(ids)) {
      const batch = this.#batches.get(name)
      if (batch?.endedAt === undefined) this.check(name)
      else batch.hasDead = this.#membersOf(name).some(({ status }) => status === 'dead')
    }
  }

  /** These tasks were redriven. */
  redriven(ids: readonly string[]): void {
    for (const name of namesOf(ids)) {
      const batch = this.#batches.get(name)
      if (batch !== undefined) batch.endedAt = undefined
    }
  }

  /** Forgets batches. Members of those that are left are kept. */
  prune({ endedMs = Infinity, deadMs = Infinity }: Retention): void {
    for (const [name, { endedAt = Infinity, hasDead }] of this.#batches) {
      const keepMs = hasDead ? Math.max(endedMs, deadMs) : endedMs
      if (endedAt <= this.#model.now - keepMs) this.#batches.delete(name)
    }
  }

  isKept(id: string): boolean {
    return [...namesOf([id])].some(name => this.#batches.has(name))
  }

  async compare(store: StoreContract): Promise<void> {
    const { items } = await store.batches.list({}, { limit: 100 })
    assert.deepEqual(items.map(({ name }) => name).sort(), [...this.#batches.keys()].sort(), 'the batches')
    for (const { name, status, counts, endings, endedAt } of items) {
      const batch = this.#batches.get(name)
      const open = batch?.isFull ? 'running' : 'filling'
      assert.deepEqual([endings, endedAt], [batch?.endings, batch?.endedAt], `the ends of ${name}`)
      assert.equal(status === 'filling' || status === 'running' ? status : 'ended', batch?.endedAt ? 'ended' : open)
      const expected: Record<string, number> = {}
      for (const { status } of this.#membersOf(name)) expected[status] = (expected[status] ?? 0) + 1
      const found = Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))
      assert.deepEqual(found, expected, `the counts of ${name}`)
    }
  }

  #membersOf(name: string): ModelTask[] {
    return [...this.#model.tasks.values()].filter(({ id }) => id.startsWith(`batch:${name}:`))
  }
}

function namesOf(ids: readonly string[]): ReadonlySet<string> {
  return new Set(ids.flatMap(id => (id.startsWith('batch:') ? (id.split(':')[1] ?? []) : [])))
}
