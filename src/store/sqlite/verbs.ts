import type { Beat, Claim, ClaimRequest, Heartbeat, Settled, Settlement } from '../contract/claim.js'
import type { StepRecording } from '../contract/step.js'
import type { Retention } from '../contract/store.js'
import type { Enqueued, NewTask } from '../contract/task.js'
import { runNow, type Tx } from '../port/steps.js'
import { withGates } from '../rules/budgets/gate-answers.js'
import { tasksIfDead } from '../rules/if-dead.js'
import { RoomTurns } from '../rules/room-turns.js'
import { markStopped } from '../rules/runs/mark-stopped.js'
import type { StoreVerbs } from '../verbs/base-store.js'
import { judgeGates } from '../verbs/budgets.js'
import { claim } from './claim.js'
import { enqueue } from './enqueue.js'
import type { GroupCommit } from './group-commit.js'
import { noteEnded } from './note-ended.js'
import { refuseNewer } from './open-file.js'
import type { SqliteParts } from './port.js'
import { prune } from './prune.js'
import { pruneRuns } from './prune-runs.js'
import { settle } from './settle.js'
import { recordStep } from './steps.js'
import { placeOf } from './token.js'
import type { Watchers } from './watchers.js'
import { heartbeat, leave } from './workers.js'

/** The hot verbs of a SQLite store. Concurrent calls share a transaction. */
export class SqliteVerbs implements StoreVerbs {
  readonly #parts: SqliteParts
  readonly #commits: GroupCommit
  readonly #watchers: Watchers
  readonly #tx: Tx
  readonly #turns = new RoomTurns()
  /** The tasks of concurrent calls are added together: by itself, each costs three times as much. */
  readonly #addAll = (tasks: readonly NewTask[]): Enqueued[] => {
    const { statements, lanes, now, makeId } = this.#parts
    return enqueue(statements, lanes, tasks, now(), makeId)
  }

  constructor(parts: SqliteParts, commits: GroupCommit, watchers: Watchers, tx: Tx) {
    this.#parts = parts
    this.#commits = commits
    this.#watchers = watchers
    this.#tx = tx
  }

  async now(): Promise<number> {
    return this.#parts.now()
  }

  async enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    if (tasks.length === 0) return []
    const [first] = tasks
    const added =
      first !== undefined && tasks.length === 1
        ? [await this.#commits.writeTogether(this.#addAll, first)]
        : await this.#commits.write(() => this.#addAll(tasks))
    if (added.some(({ isNew }) => isNew)) this.#watchers.ring()
    return added
  }

  claim(request: ClaimRequest): Promise<Claim> {
    const { statements, now } = this.#parts
    return this.#commits.write(() => claim(statements, request, now(), this.#turns))
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    if (settlements.length === 0) return []
    const { statements, lanes, runs, now, makeId } = this.#parts
    const settled = await this.#commits.write(() => {
      const at = now()
      const all = settle(statements, lanes, settlements, at)
      const followers = tasksIfDead(settlements, all.results)
      if (followers.length > 0) enqueue(statements, lanes, followers, at, makeId)
      const gates = all.isToJudge ? runNow(judgeGates(this.#tx, at)) : []
      const stopped = noteEnded(runs, this.#tx, all.items)
      const laneOf = (n: number) => lanes.lane(placeOf(settlements[n]?.token ?? '')?.lane ?? 0)
      const isRoomMade = all.isRoomMade || followers.length > 0
      return { isRoomMade, results: withGates(markStopped(all.results, stopped, laneOf), gates) }
    })
    if (settled.isRoomMade) this.#watchers.ring()
    this.#watchers.ended(settlements)
    return settled.results
  }

  recordStep(step: StepRecording): Promise<boolean> {
    return this.#commits.write(() => recordStep(this.#parts.statements, step))
  }

  async heartbeat(beat: Beat): Promise<Heartbeat> {
    const { db, path, statements, now } = this.#parts
    const answer = await this.#commits.write(() => {
      // A worker ends once a newer release has migrated the store, whether or not its own statements still work there.
      refuseNewer(db, path)
      return heartbeat(statements, beat, now())
    })
    if (answer.rescued > 0) this.#watchers.ring()
    return answer
  }

  cancelled(worker: string): Promise<string[]> {
    return this.#commits.read(() => this.#parts.statements.cancelledOf.all(worker))
  }

  async leave(worker: string): Promise<void> {
    const { statements, now } = this.#parts
    const count = await this.#commits.write(() => leave(statements, worker, now()))
    if (count > 0) this.#watchers.ring()
  }

  prune(keep: Retention, limit: number): Promise<number> {
    const { statements, runs, lanes } = this.#parts
    return this.#commits.write(() => {
      const now = this.#parts.now()
      const gone = pruneRuns({ tasks: statements, runs }, keep, limit, now)
      // Lanes may be gone with it.
      lanes.clear()
      return gone + prune(statements, keep, limit - gone, now)
    })
  }
}
