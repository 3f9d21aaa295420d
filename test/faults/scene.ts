import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildSync } from 'esbuild'
import { openSqlite, type SqliteStore } from 'redrive/sqlite'
import { type EnqueueOptions, type TaskDefinition, TaskQueue } from 'redrive/task'
import { afterAll } from 'vitest'
import type { ChildOptions, ChildReport } from './child.js'
import { makeTasks, type Tasks } from './tasks.js'

export const LEASE_MS = 400

/** How a process ended: by itself, or by which signal. */
export interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/**
 * A store in a file, the processes that work on it, and what was accepted. Close it in the end, however it went: it ends
 * the processes that it started.
 */
export class Scene {
  /** The ids of all tasks whose enqueueing was acknowledged, with the attempts that their policies allow. */
  readonly accepted = new Map<string, number>()
  readonly tasks: Tasks
  readonly #queue: TaskQueue
  readonly #children = new Set<Child>()

  private constructor(
    readonly folder: string,
    readonly path: string,
    readonly store: SqliteStore,
  ) {
    this.#queue = new TaskQueue(store)
    this.tasks = makeTasks({ folder, store, reach: () => {} })
  }

  static async open(folder = mkdtempSync(join(tmpdir(), 'redrive-faults-'))): Promise<Scene> {
    const path = join(folder, 'redrive.db')
    const store = await openSqlite(path)
    await store.once('table', db => void db.exec('CREATE TABLE effect (task TEXT, attempt INTEGER)'))
    return new Scene(folder, path, store)
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

  /** Starts a worker in a process of its own. */
  start(options: Partial<ChildOptions> = {}): Child {
    const { folder, path } = this
    const name = `worker-${this.#children.size + 1}`
    const child = new Child({ folder, path, name, leaseMs: LEASE_MS, concurrency: 4, ...options })
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

  /** How often each task wrote, through `once`. */
  async effects(): Promise<Map<string, number>> {
    const rows = await this.store.once(crypto.randomUUID(), db =>
      db.prepare<[], { task: string; times: number }>('SELECT task, count(*) AS times FROM effect GROUP BY task').all(),
    )
    return new Map(rows.map(({ task, times }) => [task, times]))
  }

  /** Resolves once nothing waits and nothing runs. */
  async drained(): Promise<void> {
    await until('the queue has drained', async () => {
      const { waiting, running } = await this.store.count({})
      return waiting + running === 0
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
      this.ended.then(({ signal }) => (signal === null ? fail(new Error(`It ended early. ${this.#errors}`)) : done()))
    })
    this.ready.catch(() => {})
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  get isOver(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null
  }

  /** What it said on stderr. */
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

/** Within the project, so that the program finds its packages. */
const CACHE = resolve(import.meta.dirname, '../../node_modules/.cache')
let built: string | undefined
afterAll(() => {
  if (built !== undefined) rmSync(built)
})

/**
 * The program that the processes run: `child.ts`, bundled once, so that a process starts in 0.1 s instead of the 0.4 s
 * that it takes to compile each file anew. Hundreds of them are started.
 */
function program(): string {
  if (built !== undefined) return built
  const outfile = join(CACHE, `redrive-faults-${crypto.randomUUID()}.mjs`)
  buildSync({
    entryPoints: [join(import.meta.dirname, 'child.ts')],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    external: ['better-sqlite3'],
    sourcemap: 'inline',
  })
  built = outfile
  return built
}
