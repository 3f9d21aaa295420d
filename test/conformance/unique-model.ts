import type { Enqueued, NewTask } from '../../src/store/index.js'
import type { TwinRule, UniqueKey } from '../../src/store/internal.js'
import type { ModelTask, StoreModel } from './model.js'

/** Who has a key. */
interface Held {
  holder: string
  since: number
  /** `within`: until when, whatever becomes of the holder. */
  until: number
  /** The task that waits for the end of the holder, and when that is to be due. */
  next: string | undefined
  nextDueAt: number
}

/** What unique keys of a store should do, written as simply as possible. */
export class UniqueModel {
  readonly #keys = new Map<string, Held>()
  readonly #model: StoreModel

  constructor(model: StoreModel) {
    this.#model = model
  }

  /** Adds a task, or does what its conflict says. Returns what the store should answer. */
  enqueue(task: NewTask & { readonly id: string }): Enqueued {
    const { id, unique } = task
    if (this.#model.tasks.has(id)) return this.#there(id, 'kept')
    if (unique === undefined) return this.#add(task, 'created')
    const key = nameOf(task.kind, unique)
    const until = this.#model.now + (unique.withinMs ?? 0)
    const { held, live } = this.#holder(key)
    if (held !== undefined && unique.conflict === 'keep') return this.#there(held.holder, 'kept')
    if (held === undefined || live === undefined) {
      this.#take(key, id, until)
      return this.#add(task, 'created')
    }
    const isUntouched = !hasBegun(live)
    if (unique.conflict === 'postpone' && isUntouched) {
      live.n = nOf(task)
      live.changedAt = this.#model.now
      live.dueAt = Math.min(task.runAt ?? 0, held.since + (unique.maxWaitMs ?? 0))
      return this.#there(held.holder, 'postponed')
    }
    const isReplacing = unique.conflict === 'replace' || isUntouched
    const isQueued = unique.conflict === 'replace' ? live.status === 'running' : !isUntouched
    const answer = this.#add(task, isReplacing ? 'replaced' : 'queued_after')
    this.#succeed(key, held, { id, until, dueAt: task.runAt ?? 0, isQueued, isReplacing })
    return answer
  }

  /** Gives dead tasks their keys back, as far as they get them. Returns the others. */
  retake(ids: readonly string[], twin: TwinRule): ReadonlySet<string> {
    const refused = new Set<string>()
    const mine = new Set<string>()
    for (const id of ids) {
      const task = this.#model.tasks.get(id)
      if (task?.status !== 'dead' || task.unique?.while !== 'unfinished') continue
      const key = nameOf(task.kind, task.unique)
      const { held, live } = this.#holder(key)
      const own = this.#keys.get(key)
      const isOwn = own !== undefined && (mine.has(own.holder) || mine.has(own.next ?? ''))
      const isKept = held !== undefined && (twin === 'skip' || (twin === 'after' && live && held.next !== undefined))
      if (isOwn || isKept) {
        refused.add(id)
        continue
      }
      mine.add(id)
      const isReplacing = twin === 'replace'
      const isQueued = !isReplacing || live?.status === 'running'
      const { now } = this.#model
      if (held === undefined || live === undefined) this.#take(key, id, now)
      else this.#succeed(key, held, { id, until: now, dueAt: now, isQueued, isReplacing })
    }
    return refused
  }

  /** Whether a task waits for the end of its twin. */
  isQueued({ id, kind, unique }: ModelTask): boolean {
    return unique !== undefined && this.#keys.get(nameOf(kind, unique))?.next === id
  }

  /** A task has ended: its key is free, or that of the task which waited for this. */
  release({ id, kind, unique }: ModelTask): void {
    const key = unique && nameOf(kind, unique)
    const held = key === undefined ? undefined : this.#keys.get(key)
    if (key === undefined || held === undefined) return
    const next = held.next === id ? undefined : held.next
    held.next = next
    if (held.holder !== id) return
    const waiting = next === undefined ? undefined : this.#model.tasks.get(next)
    if (waiting !== undefined) {
      waiting.dueAt = Math.max(held.nextDueAt, this.#model.now)
      this.#take(key, waiting.id, this.#model.now)
    } else if (held.until <= this.#model.now) this.#keys.delete(key)
  }

  /** Who has a key now, and its task, if that lives. */
  #holder(key: string): { readonly held?: Held; readonly live?: ModelTask | undefined } {
    const held = this.#keys.get(key)
    const task = held && this.#model.tasks.get(held.holder)
    const live = task?.status === 'waiting' || task?.status === 'running' ? task : undefined
    const isTimed = held !== undefined && this.#model.now < held.until
    const isWaitedFor = held?.next !== undefined && live !== undefined
    const isInScope = live?.unique?.while === 'unfinished' || (live?.unique?.while === 'waiting' && !hasBegun(live))
    return held && (isTimed || isWaitedFor || isInScope) ? { held, live } : {}
  }

  #take(key: string, holder: string, until: number): void {
    this.#keys.set(key, { holder, since: this.#model.now, until, next: undefined, nextDueAt: 0 })
  }

  /** Lets a task stand in for the holder of a key, or wait for its end in the place of whoever did. */
  #succeed(
    key: string,
    held: Held,
    to: { id: string; until: number; dueAt: number; isQueued: boolean; isReplacing: boolean },
  ): void {
    const { holder, next } = held
    if (to.isQueued) Object.assign(held, { next: to.id, nextDueAt: to.dueAt })
    else this.#take(key, to.id, to.until)
    if (to.isReplacing) this.#model.cancel(holder)
    if (next !== undefined) this.#model.cancel(next)
  }

  #add(task: NewTask & { readonly id: string }, outcome: Enqueued['outcome']): Enqueued {
    this.#model.add(task)
    return { id: task.id, isNew: true, outcome }
  }

  #there(id: string, outcome: 'kept' | 'postponed'): Enqueued {
    const task = this.#model.tasks.get(id)
    return { id, isNew: false, outcome, ...(task && { status: task.status, since: task.changedAt }) }
  }
}

function hasBegun({ status, attempts, deferrals, losses, steps }: ModelTask): boolean {
  return status !== 'waiting' || attempts + deferrals + losses + steps.size > 0
}

function nameOf(kind: string, { key }: Pick<UniqueKey, 'key'>): string {
  return JSON.stringify([kind, key])
}

/** The field of a payload, if it has one. */
export function nOf({ payload }: Pick<NewTask, 'payload'>): number | undefined {
  return JSON.parse(payload).n
}
