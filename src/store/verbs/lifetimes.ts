import type { Declaring, ExpiredTask, Lifetime, LifetimeStore } from '../contract/lifetime-store.js'
import type { StoredRecord } from '../port/record-port.js'
import type { Transactions } from '../port/steps.js'
import { checkIds, checkName, checkNewTask, checkTime } from '../rules/check.js'
import { expireTasks } from './runs.js'

/** The type of the records. */
const LIFETIME = 'lifetime'

/** More than there are kinds with a time to live. */
const ALL = 10_000

/** The times to live of every store. */
export class Lifetimes implements LifetimeStore {
  readonly #store: Transactions
  readonly #changed: (ids: readonly string[]) => void

  constructor(store: Transactions, changed: (ids: readonly string[]) => void) {
    this.#store = store
    this.#changed = changed
  }

  async declare(kinds: readonly Declaring[]): Promise<void> {
    kinds.forEach(checkDeclaring)
    const rows = kinds.map(kind => ({ kind, row: rowOf(kind) }))
    await this.#store.write(function* (tx) {
      const found = yield* tx.records.lock(
        LIFETIME,
        rows.map(({ row }) => row.id),
      )
      const states = new Map(found.map(({ id, state }) => [id, state]))
      const news = rows.filter(({ kind, row }) => kind.policy !== undefined && states.get(row.id) !== row.state)
      const gone = rows.filter(({ kind, row }) => kind.policy === undefined && states.has(row.id))
      if (news.length > 0) {
        yield* tx.records.save(
          LIFETIME,
          news.map(({ row }) => row),
        )
      }
      if (gone.length > 0) {
        yield* tx.records.drop(
          LIFETIME,
          gone.map(({ row }) => row.id),
        )
      }
    })
  }

  async list(): Promise<readonly Lifetime[]> {
    return this.#store.read(function* (tx) {
      return (yield* tx.records.list(LIFETIME, '', ALL)).map(({ state }) => JSON.parse(state) as Lifetime)
    })
  }

  async expire(tasks: readonly ExpiredTask[]): Promise<string[]> {
    checkIds(tasks.map(({ id }) => id))
    for (const { changedAt, ifDead = [] } of tasks) {
      checkTime('changedAt', changedAt)
      ifDead.forEach(checkNewTask)
    }
    const expired = await this.#store.write(function* (tx) {
      const now = yield* tx.clock.now()
      const ids = new Set(yield* expireTasks(tx, tasks, now))
      const followers = tasks.flatMap(({ id, ifDead = [] }) => (ids.has(id) ? ifDead : []))
      if (followers.length > 0) yield* tx.tasks.enqueue(followers, now)
      return [...ids]
    })
    if (expired.length > 0) this.#changed(expired)
    return expired
  }
}

function rowOf({ kind, category, policy, onDead }: Declaring): StoredRecord {
  const id = JSON.stringify(category === undefined ? [kind] : [kind, category])
  return { id, place: 0, isOpen: false, state: JSON.stringify({ kind, category, policy, onDead }) }
}

function checkDeclaring({ kind, category, policy, onDead }: Declaring): void {
  checkName('kind', kind)
  if (category !== undefined) checkName('category', category)
  if (policy !== undefined) checkName('policy', policy)
  if (onDead !== undefined) checkName('onDead', onDead)
}
