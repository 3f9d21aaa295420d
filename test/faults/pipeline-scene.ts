import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StoreContract } from '../../src/store/internal.js'
import { Child } from './child-process.js'
import { openStore } from './open-store.js'
import type { PipelineChildOptions, PipelineChildReport } from './pipeline-child.js'
import { STARTS } from './pipeline-stages.js'

/** The run of a scene. */
export const RUN = 'the-run'

/** A start of a stage: which, and of which item. */
export interface Start {
  readonly stage: string
  readonly item: string
}

/** A store, a run, and the processes that work on it. Close it in the end: it ends the processes that it started. */
export class PipelineScene {
  readonly #children = new Set<Child<PipelineChildReport>>()

  // biome-ignore lint/style/useConsistentMemberAccessibility: a constructor has no `#` form.
  private constructor(
    readonly folder: string,
    readonly url: string,
    readonly store: StoreContract,
  ) {}

  /** On a SQLite file, or on the store that a url names. */
  static async open(url?: string): Promise<PipelineScene> {
    const folder = mkdtempSync(join(tmpdir(), 'redrive-faults-'))
    const used = url ?? `sqlite:${join(folder, 'redrive.db')}`
    return new PipelineScene(folder, used, await openStore(used))
  }

  /** Starts a process that works on the run. */
  start(options: Pick<PipelineChildOptions, 'count'> & Partial<PipelineChildOptions>): Child<PipelineChildReport> {
    const { folder, url } = this
    const common = { folder, url, run: RUN, pipeline: 'faults', reads: true, leaseMs: 400, concurrency: 50 } as const
    const given: PipelineChildOptions = { ...common, ...options }
    const child = new Child<PipelineChildReport>('pipeline-child.ts', given)
    this.#children.add(child)
    return child
  }

  /** Each call of a stage for an item, in the order of all processes, whatever became of it. */
  starts(): Start[] {
    try {
      return readFileSync(join(this.folder, STARTS), 'utf8')
        .split('\n')
        .filter(Boolean)
        .map(line => {
          const [stage = '', item = ''] = line.split(' ')
          return { stage, item }
        })
    } catch {
      return []
    }
  }

  /** Makes a file that stages wait for. */
  signal(name: string): void {
    writeFileSync(join(this.folder, name), '')
  }

  async close(): Promise<void> {
    await Promise.all([...this.#children].map(child => child.kill()))
    await this.store.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
