import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildSync } from 'esbuild'
import { type Store, StoreUnavailableError } from 'redrive/store'
import { type EnqueueOptions, type TaskDefinition, TaskQueue } from 'redrive/task'
import { afterAll } from 'vitest'
import type { ChildOptions, ChildReport } from './child.js'
import { countEffects, createEffects, type Transaction } from './effects.js'
import { openStore } from './open-store.js'
import { makeTasks, type Tasks } from './tasks.js'

export const LEASE_MS = 400

/** How a process ended: by itself, or by which signal. */
export interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/**
 * A store, the processes that work on it, and what was accepted. Close it in the end, however it went: it ends the
 * processes that it started.
 */
export class Scene {
  /** The ids of all tasks whose enqueueing was acknowledged, with the attempts that their policies allow. */
  readonly accepted = new Map<string, number>()
  readonly tasks: Tasks
  readonly #queue: TaskQueue
  readonly #children = new Set<Child>()

  // biome-ignore lint/style/useConsistentMemberAccessibility: a constructor has no `#` form.
  private constructor(
    /** Where tasks leave their traces. */
    readonly folder: string,
    readonly url: string,
    readonly store: Store,
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
  start(options: Partial<ChildOptions> = {}): Child {
    const { folder, url } = this
    const name = `worker-${this.#children.size + 1}`
    const child = new Child({ folder, url, name, leaseMs: LEASE_MS, concurrency: 4, ...options })
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

/** A worker in a process of its own. */
export class Child {
  readonly ended: Promise<End>
  readonly ready: Promise<void>
  readonly #process: ChildProcess
  #out = ''
  #errors = ''

  constructor(options: ChildOptions) {
    this.#process = spawn(process.execPath, [program()], {
      env: { ...process.env, REDRIVE_FAULT_CHILD: JSON.stringify(options) },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.ended = new Promise(done => this.#process.on('close', (code, signal) => done({ code, signal })))
    this.#process.stderr?.on('data', data => {
      this.#errors += data
    })
    this.ready = new Promise((done, fail) => {
      this.#process.stdout?.on('data', data => {
        this.#out += data
        if (this.#out.includes('ready')) done()
      })
      // Who is killed at once will never be ready, and need not be.
      void this.ended.then(({ signal }) => {
        if (signal === null) fail(new Error(`It ended early. ${this.#errors}`))
        else done()
      })
    })
    this.ready.catch(() => {})
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  get isOver(): boolean {
    const { code, signal } = this.end
    return code !== null || signal !== null
  }

  /** How it has ended; both are null while it lives. */
  get end(): End {
    return { code: this.#process.exitCode, signal: this.#process.signalCode }
  }

  /** Its output on stderr. */
  get errors(): string {
    return this.#errors
  }

  /** kill -9. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await this.ended
  }

  /** SIGSTOP: it stands still in the middle of whatever it does. */
  freeze(): void {
    this.#process.kill('SIGSTOP')
  }

  /** SIGCONT: it goes on as if no time had passed. */
  thaw(): void {
    this.#process.kill('SIGCONT')
  }

  /** Lets it stop in good order, and returns what it told. */
  async stop(): Promise<ChildReport> {
    await this.ready
    this.#process.kill('SIGTERM')
    const { code } = await this.ended
    if (code !== 0) throw new Error(`The process ended with ${code}. ${this.#errors}`)
    return JSON.parse(this.#out.trim().split('\n').at(-1) ?? '')
  }
}

/** Waits for something that must come by itself. */
export async function until(what: string, isSo: () => boolean | Promise<boolean>, withinMs = 30_000): Promise<void> {
  const latest = performance.now() + withinMs
  while (!(await isSo())) {
    if (performance.now() > latest) throw new Error(`It took more than ${withinMs} ms until ${what}.`)
    await sleep(15)
  }
}

const makeFolder = () => mkdtempSync(join(tmpdir(), 'redrive-faults-'))

const PROJECT = resolve(import.meta.dirname, '../..')
let built: string | undefined
afterAll(() => {
  if (built !== undefined) rmSync(built, { recursive: true, force: true })
})

/**
 * The program that the processes run: `child.ts`, bundled once, so that a process starts in 0.1 s instead of the 0.4 s
 * that it takes to compile each file anew. Hundreds of them are started.
 */
function program(): string {
  // Within the project, so that the program finds its packages.
  built ??= join(PROJECT, 'node_modules/.cache', `redrive-faults-${crypto.randomUUID()}`)
  const outfile = join(built, 'child.mjs')
  if (existsSync(outfile)) return outfile
  buildSync({
    entryPoints: [join(import.meta.dirname, 'child.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    external: ['better-sqlite3', 'pg'],
    sourcemap: 'inline',
  })
  // The store looks for them beside its own file.
  for (const folder of ['schema', 'functions'])
    cpSync(join(PROJECT, 'src/store/postgres', folder), join(built, folder), { recursive: true })
  return outfile
}
