import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, existsSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { buildSync } from 'esbuild'
import { afterAll } from 'vitest'

/** How a process ended: by itself, or by which signal. */
export interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/**
 * A program of these tests in a process of its own. It says `ready` when it works. Its last line on stdout is its report,
 * as JSON.
 */
export class Child<Report = unknown> {
  readonly ended: Promise<End>
  readonly ready: Promise<void>
  readonly #process: ChildProcess
  #out = ''
  #errors = ''

  /** `program` is a file beside this one. It finds its options in `REDRIVE_FAULT_CHILD`. */
  constructor(program: string, options: object) {
    this.#process = spawn(process.execPath, [bundled(program)], {
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

  /** Lets it stop in good order, and returns its report. */
  async stop(): Promise<Report> {
    await this.ready
    this.#process.kill('SIGTERM')
    return this.report()
  }

  /** Waits until it has ended by itself, and returns its report. */
  async report(): Promise<Report> {
    const { code } = await this.ended
    if (code !== 0) throw new Error(`The process ended with ${code}. ${this.#errors}`)
    return JSON.parse(this.#out.trim().split('\n').at(-1) ?? '')
  }
}

const PROJECT = resolve(import.meta.dirname, '../..')
let folder: string | undefined
afterAll(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
})

/**
 * A program, bundled once, so that a process starts in 0.1 s instead of the 0.4 s that it takes to compile each file anew.
 * Hundreds of them are started.
 */
function bundled(program: string): string {
  // Within the project, so that the program finds its packages.
  folder ??= join(PROJECT, 'node_modules/.cache', `redrive-faults-${crypto.randomUUID()}`)
  const outfile = join(folder, program.replace(/ts$/, 'mjs'))
  if (existsSync(outfile)) return outfile
  buildSync({
    entryPoints: [join(import.meta.dirname, program)],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    external: ['better-sqlite3', 'pg'],
    sourcemap: 'inline',
  })
  // The store looks for them beside its own file.
  for (const name of ['schema', 'functions'])
    cpSync(join(PROJECT, 'src/store/postgres', name), join(folder, name), { recursive: true })
  return outfile
}
