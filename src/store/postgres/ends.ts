import { EndWatchers } from '../rules/end-watchers.js'
import type { Database } from './database.js'
import { IdNotices } from './id-notices.js'
import type { Wire } from './signals.js'

/** A task is looked at this long after somebody began to wait for it, then after twice that time, and so on. */
const FIRST_LOOK_MS = 50
/** From here on, tasks are looked at whenever the listener polls. */
const LAST_LOOK_MS = 1000

/** Whoever waits for a task says so at every poll. One that has not for this long no longer waits. */
const WANTED_MS = 10_000

const ENDED = /* sql */ `
  SELECT wanted.id
  FROM unnest($1::text[]) AS wanted (id)
  WHERE NOT EXISTS (
    SELECT FROM redrive.task WHERE task.id = wanted.id AND task.state <= redrive.state_running()
  )
`

/**
 * Tells whoever waits for the end of a task. A process that waits announces the task on one channel; a process that works
 * hears it, and says on another channel when it has settled the task. So a settlement that nobody waits for costs nothing.
 *
 * A notification may be missed, or not be passed on by a pooler. So tasks that are waited for are looked at as well: soon
 * after they were announced, then ever more rarely.
 */
export class Ends {
  readonly #database: Database
  readonly #watchers = new EndWatchers()
  /** Tasks that other processes wait for, each with the time until which that holds. */
  readonly #wanted = new Map<string, number>()
  readonly #announcements: IdNotices
  readonly #settlements: IdNotices
  readonly #looks = new Set<NodeJS.Timeout>()
  #fresh: string[] = []
  #unsubscribe: (() => void) | undefined

  constructor(database: Database, wire: Wire) {
    this.#database = database
    this.#announcements = new IdNotices(wire, `${wire.channel}_wait`)
    this.#settlements = new IdNotices(wire, `${wire.channel}_done`)
  }

  /** Calls back when the task may have ended. */
  add(id: string, callback: () => void): () => void {
    if (!this.#watchers.has(id)) this.#announce(id)
    const remove = this.#watchers.add(id, callback)
    this.#unsubscribe ??= this.#settlements.on(ids => {
      if (ids === undefined) void this.#lookAtAll()
      else for (const id of ids) this.#watchers.call(id)
    })
    return () => {
      remove()
      if (this.#watchers.size > 0) return
      this.#unsubscribe?.()
      this.#unsubscribe = undefined
    }
  }

  /** Hears which tasks other processes wait for, in a process that works. Returns a function that ends it. */
  hear(): () => void {
    return this.#announcements.on((ids = []) => {
      const now = performance.now()
      for (const [id, until] of this.#wanted) if (until < now) this.#wanted.delete(id)
      for (const id of ids) this.#wanted.set(id, now + WANTED_MS)
    })
  }

  /** Tells whoever waits for one of these tasks that it may have ended. */
  ended(tasks: readonly { readonly id: string }[]): void {
    if (this.#watchers.size === 0 && this.#wanted.size === 0) return
    for (const { id } of tasks) {
      this.#watchers.call(id)
      if (this.#wanted.has(id)) this.#settlements.send(id)
    }
  }

  stop(): void {
    this.#watchers.clear()
    for (const timer of this.#looks) clearTimeout(timer)
    this.#announcements.stop()
    this.#settlements.stop()
  }

  #announce(id: string): void {
    this.#announcements.send(id)
    if (this.#fresh.push(id) > 1) return
    this.#later(FIRST_LOOK_MS, () => {
      const ids = this.#fresh
      this.#fresh = []
      return this.#lookUntilRare(ids, FIRST_LOOK_MS)
    })
  }

  async #lookUntilRare(ids: readonly string[], afterMs: number): Promise<void> {
    await this.#look(ids)
    const left = ids.filter(id => this.#watchers.has(id))
    const nextMs = 2 * afterMs
    if (left.length > 0 && nextMs <= LAST_LOOK_MS) this.#later(nextMs, () => this.#lookUntilRare(left, nextMs))
  }

  async #lookAtAll(): Promise<void> {
    await this.#look(this.#watchers.ids())
    for (const id of this.#watchers.ids()) this.#announcements.send(id)
  }

  async #look(ids: readonly string[]): Promise<void> {
    const wanted = ids.filter(id => this.#watchers.has(id))
    if (wanted.length === 0) return
    try {
      for (const { id } of (await this.#database.query(ENDED, [wanted])) as readonly { id: string }[])
        this.#watchers.call(id)
    } catch {
      // The database is away, or the store is closed. The next look will tell.
    }
  }

  #later(delayMs: number, look: () => Promise<void>): void {
    const timer = setTimeout(() => {
      this.#looks.delete(timer)
      void look()
    }, delayMs)
    this.#looks.add(timer)
  }
}
