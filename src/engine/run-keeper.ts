import type { Outcome, RunRecord, RunStore } from '../store/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'

/** Hears of a run. */
export interface RunFollower {
  /** The run as it is on record. */
  onRecord(record: RunRecord): void
  /** This process has worked on it, and that is on record. */
  onSettled(news: RunNews): void
}

/** How many items ended, and how many attempts are to be repeated. */
export interface RunNews {
  readonly ended: number
  readonly retries: number
  readonly deferrals: number
}

/** Changes of a run reach this process within this time, and its end is noticed, whoever settled its last item. */
const CHECK_MS = 1000
/** A process checks the budget after it has ended this share of an interval, since it does not see what others have ended. */
const SHARES = 4
/** A run whose items no longer come here is left to others after this time. */
const FORGET_MS = 60_000
/** Runs that nobody works on any more are looked for this often. */
const SWEEP_MS = 60_000
/** How many runs are listed at a time. */
const PAGE = 100

/** A run that this process works on. */
interface TouchedRun {
  readonly id: string
  readonly followers: Set<RunFollower>
  /** Settlements that the followers have not heard of. */
  news: { -readonly [Field in keyof RunNews]: RunNews[Field] } | undefined
  /** Items that have ended since it was last checked. */
  ended: number
  /** Whether anything has been settled since it was last checked. */
  hasChanged: boolean
  /** A check that is under way. */
  checking: Promise<void> | undefined
  /** The check after that one, which sees what was settled meanwhile. */
  next: Promise<void> | undefined
  touchedAt: number
  record: RunRecord | undefined
}

/**
 * Checks the runs that this process works on: after its share of a check interval, when there is nothing left to claim,
 * and about once a second. A check ends a run, or stops it, and brings changes of its settings along.
 *
 * At the start and about once a minute it also checks runs of its pipelines that have nothing left to do, cancelled ones
 * too: the process that settled the last item may have died before its check.
 */
export class RunKeeper implements Sleeper {
  readonly #runs: () => Pick<RunStore, 'check' | 'list'>
  readonly #pipelines: ReadonlySet<string>
  readonly #clock: Clock
  readonly #onRecord: (record: RunRecord) => void
  readonly #touched = new Map<string, TouchedRun>()
  #timer: Timer | undefined
  #isStopped = false
  #sweptAt = -Infinity

  /** `onRecord` is called after each check, before the followers of the run are. */
  constructor(
    runs: () => Pick<RunStore, 'check' | 'list'>,
    pipelines: ReadonlySet<string>,
    clock: Clock,
    onRecord: (record: RunRecord) => void,
  ) {
    this.#runs = runs
    this.#pipelines = pipelines
    this.#clock = clock
    this.#onRecord = onRecord
  }

  /** The runs that this process works on, as of their last checks. */
  get records(): readonly RunRecord[] {
    return [...this.#touched.values()].flatMap(({ record }) => record ?? [])
  }

  start(): void {
    if (this.#isStopped) return
    this.#timer = this.#clock.setTimer(this, CHECK_MS)
    if (this.#clock.monotonic() - this.#sweptAt >= SWEEP_MS) void this.#sweep()
  }

  stop(): void {
    this.#isStopped = true
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
  }

  /** Checks the runs once more that have changed, when nothing more will be settled here: their last items may have ended. */
  async finish(): Promise<void> {
    await Promise.all(
      [...this.#touched.values()].map(async run => {
        await (run.next ?? run.checking)
        if (run.hasChanged) await this.#look(run)
      }),
    )
  }

  /** Keeps a follower informed. Returns a function that ends it. */
  follow(id: string, follower: RunFollower): () => void {
    const { followers } = this.#run(id)
    followers.add(follower)
    return () => followers.delete(follower)
  }

  /** Takes a run as it is on record, so that its settings hold before the first check. */
  note(record: RunRecord): void {
    this.#run(record.id).record = record
    this.#onRecord(record)
  }

  /** The settlement of an item is on record. */
  settled(id: string, { type }: Outcome): void {
    const run = this.#run(id)
    run.touchedAt = this.#clock.monotonic()
    run.hasChanged = true
    run.news ??= { ended: 0, retries: 0, deferrals: 0 }
    if (type === 'retry') run.news.retries++
    else if (type === 'deferred') run.news.deferrals++
    else if (hasEnded(type)) run.news.ended++
  }

  /** A batch of settlements is on record. */
  batchSettled(): void {
    for (const run of this.#touched.values()) {
      const { news } = run
      if (news === undefined) continue
      run.news = undefined
      run.ended += news.ended
      for (const follower of run.followers) follower.onSettled(news)
      const isDue = run.ended * SHARES >= (run.record?.settings.checkInterval ?? 0)
      if (isDue && run.checking === undefined) void this.#check(run)
    }
  }

  /** Checks a run now. */
  check(id: string): Promise<void> {
    return this.#check(this.#run(id))
  }

  /** Nothing is left to do in this process: some runs may be over. */
  idle(): void {
    for (const run of this.#touched.values()) if (run.hasChanged) void this.#check(run)
  }

  /** A second is over. */
  wake(): void {
    const forgetBefore = this.#clock.monotonic() - FORGET_MS
    for (const run of this.#touched.values()) {
      if (run.followers.size === 0 && run.touchedAt < forgetBefore) this.#touched.delete(run.id)
      else void this.#check(run)
    }
    this.start()
  }

  async #sweep(): Promise<void> {
    this.#sweptAt = this.#clock.monotonic()
    try {
      for (const pipeline of this.#pipelines) await this.#sweepPipeline(pipeline)
    } catch {
      // A store that is away is asked again, a minute later.
    }
  }

  async #sweepPipeline(pipeline: string): Promise<void> {
    let after: string | undefined
    do {
      const { items, next } = await this.#runs().list({ pipeline }, { limit: PAGE, after })
      for (const { id, isRead, endedAt, counts } of items) {
        if (isRead && endedAt === undefined && counts.waiting + counts.running === 0) await this.check(id)
      }
      after = next
    } while (after !== undefined && !this.#isStopped)
  }

  #run(id: string): TouchedRun {
    let run = this.#touched.get(id)
    if (run === undefined) {
      run = {
        id,
        followers: new Set(),
        news: undefined,
        ended: 0,
        hasChanged: true,
        checking: undefined,
        next: undefined,
        touchedAt: this.#clock.monotonic(),
        record: undefined,
      }
      this.#touched.set(id, run)
    }
    return run
  }

  #check(run: TouchedRun): Promise<void> {
    if (run.checking === undefined) {
      run.checking = this.#ask(run).finally(() => {
        run.checking = undefined
      })
      return run.checking
    }
    run.next ??= run.checking.then(() => {
      run.next = undefined
      return this.#check(run)
    })
    return run.next
  }

  async #ask(run: TouchedRun): Promise<void> {
    if (!this.#isStopped) await this.#look(run)
  }

  async #look(run: TouchedRun): Promise<void> {
    run.hasChanged = false
    run.ended = 0
    try {
      const record = await this.#runs().check(run.id)
      run.record = record
      this.#onRecord(record)
      for (const follower of run.followers) follower.onRecord(record)
      if (record.endedAt !== undefined && run.followers.size === 0) this.#touched.delete(run.id)
    } catch {
      // A store that is away is asked again, a second later.
      run.hasChanged = true
    }
  }
}

function hasEnded(type: Outcome['type']): boolean {
  return type === 'succeeded' || type === 'skipped' || type === 'dead' || type === 'cancelled'
}
