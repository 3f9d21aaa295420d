import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { StoreUnavailableError } from 'redrive/store'
import { type EnqueueOptions, type TaskDefinition, TaskQueue } from 'redrive/task'
import type { StoreContract } from '../../src/store/internal.js'
import type { ChildOptions, ChildReport } from './child.js'
import { Child } from './child-process.js'
import { countEffects, createEffects, type Transaction } from './effects.js'
import { openStore } from './open-store.js'
import { makeTasks, type Tasks } from './tasks.js'

export const LEASE_MS = 400

/**
 * A store, the processes that work on it, and what was accepted. Close it in the end, however it went: it ends the
 * processes that it started.
 */
export class Scene {
  /** The ids of all tasks whose enqueueing was acknowledged, with the attempts that their policies allow. */
  readonly accepted = new Map<string, number>()
  readonly tasks: Tasks
  readonly #queue: TaskQueue
  readonly #children = new Set<Child<ChildReport>>()

  // biome-ignore lint/style/useConsistentMemberAccessibility: a constructor has no `#` form.
  private constructor(
    /** Where tasks leave their traces. */
    readonly folder: string,
    readonly url: string,
    readonly store: StoreContract,
  ) {
    this.#queue = new TaskQueue(store)
    this.tasks = makeTasks({ folder, reach: () => {} })
  }

  /** On a SQLite file in a folder. */
  static open(folder = makeFolder()): Promise<Scene> {
    return Scene.on(`sqlite:${join(folder, 'redrive.db')}`, folder)
  }

  /** On the store that a url names. */
  static async on(url: string, folder = makeFolder()): Promise<Scene> {
    const store = await openStore(url)
    await store.once('table', (tx: Transaction) => createEffects(tx))
    return new Scene(folder, url, store)
  }

  /** Enqueues one task, and notes that it was accepted. */
  async add<P>(task: TaskDefinition<P>, payload: P, options: EnqueueOptions = {}): Promise<string> {
    const { id } = await this.#queue.enqueue(task, payload, options)
    this.accepted.set(id, task.policy.attempts)
    return id
  }

  /** Enqueues tasks in one transaction. */
  async addMany<P>(task: TaskDefinition<P>, payloads: readonly P[]): Promise<string[]> {
    const added = await this.#queue.enqueueMany(
      task,
      payloads.map(payload => ({ payload })),
    )
    for (const { id } of added) this.accepted.set(id, task.policy.attempts)
    return added.map(({ id }) => id)
  }

  /**
   * Enqueues tasks, again and again until that is acknowledged: under ids of their own, so that they are there once.
   */
  async addSurely<P>(task: TaskDefinition<P>, payloads: readonly P[]): Promise<string[]> {
    const items = payloads.map(payload => ({ payload, id: crypto.randomUUID() }))
    await until('the store takes new tasks', () =>
      this.#queue.enqueueMany(task, items).then(
        () => true,
        () => false,
      ),
    )
    for (const { id } of items) this.accepted.set(id, task.policy.attempts)
    return items.map(({ id }) => id)
  }

  /** Starts a worker in a process of its own. */
  start(options: Partial<ChildOptions> = {}): Child<ChildReport> {
    const { folder, url } = this
    const name = `worker-${this.#children.size + 1}`
    const given: ChildOptions = { folder, url, name, leaseMs: LEASE_MS, concurrency: 4, ...options }
    const child = new Child<ChildReport>('child.ts', given)
    this.#children.add(child)
    return child
  }

  /** Notes what processes enqueued: what was acknowledged to them counts as accepted, whatever became of them. */
  noteAccepted(): void {
    for (const id of this.lines('accepted.log')) this.accepted.set(id, this.tasks.write.policy.attempts)
  }

  /** Each start of a handler, whatever became of it. */
  starts(): { readonly id: string; readonly attempt: number; readonly pid: number }[] {
    return this.lines('starts.log').map(line => {
      const [id = '', attempt, pid] = line.split(' ')
      return { id, attempt: Number(attempt), pid: Number(pid) }
    })
  }

  /** Makes a file that tasks wait for. */
  touch(name: string): void {
    writeFileSync(join(this.folder, name), '')
  }

  /** The lines of a file in which tasks left their traces. */
  lines(name: string): string[] {
    try {
      return readFileSync(join(this.folder, name), 'utf8').split('\n').filter(Boolean)
    } catch {
      return []
    }
  }

  /** How often each task wrote. */
  async effects(): Promise<Map<string, number>> {
    const rows = await this.store.once(crypto.randomUUID(), (tx: Transaction) => countEffects(tx))
    return new Map(rows.map(({ task, times }) => [task, Number(times)]))
  }

  /** Resolves once nothing waits and nothing runs. */
  async drained(): Promise<void> {
    const isEmpty = () =>
      this.store.count({}).then(
        ({ waiting, running }) => waiting + running === 0,
        error => {
          // Ask again while the store is away.
          if (error instanceof StoreUnavailableError) return false
          throw error
        },
      )
    await until('the queue has drained', isEmpty).catch(error => {
      const words = [...this.#children].map(({ pid, end, errors }) => `\n${pid} ${JSON.stringify(end)} ${errors}`)
      throw new Error(`${error.message}${words.join('')}`)
    })
  }

  async close(): Promise<void> {
    await Promise.all([...this.#children].map(child => child.kill()))
    await this.store.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Waits for something that must come by itself. */
export async function until(what: string, isSo: () => boolean | Promise<boolean>, withinMs = 240_000): Promise<void> {
  const latest = performance.now() + withinMs
  while (!(await isSo())) {
    if (performance.now() > latest) throw new Error(`It took more than ${withinMs} ms until ${what}.`)
    await sleep(15)
  }
}

const makeFolder = () => mkdtempSync(join(tmpdir(), 'redrive-faults-'))
