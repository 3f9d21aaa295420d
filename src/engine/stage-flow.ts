import {
  type ClaimedTask,
  isSameLane,
  itemKind,
  type Outcome,
  ownValue,
  type RunRecord,
  type Settled,
  type Settlement,
} from '../store/internal.js'
import type { BufferedTask, OwnRoom } from './own-room.js'
import type { Rooms } from './rooms.js'
import type { RunKeeper } from './run-keeper.js'
import type { ClaimTimes } from './task-attempt.js'
import type { WorkKind } from './work-kind.js'

/** The engine that a flow belongs to. */
export interface FlowEngine {
  /** Whether the engine takes on more work: it neither stops nor makes room for a task that must run alone. */
  isOpen(): boolean
  /** Starts an attempt. */
  run(task: ClaimedTask, kind: WorkKind, claim: ClaimTimes): void
  settle(settlement: Settlement): void
  monotonic(): number
}

/** A task whose settlement is on its way, and the stage that it may be kept for as an item. */
interface Leaving {
  readonly room: OwnRoom
  readonly task: ClaimedTask
  readonly next: OwnRoom | undefined
  /** Whether it keeps its stage held after a rate limit, and a place at the next stage. Not while it waits for a lock. */
  isAwaited: boolean
}

type Advanced = Extract<Outcome, { readonly type: 'advanced' }>

/**
 * Moves items through the stages in this process. An item that the worker has runs as soon as its stage has a slot. When
 * its stage has succeeded, that is settled first; if the store lets the worker keep the item, it goes on from here, and
 * else it waits in the store, for any worker. Tasks that are called together pass as if their kind had one stage.
 */
export class StageFlow {
  readonly #rooms: Rooms
  readonly #runs: RunKeeper
  readonly #engine: FlowEngine
  readonly #leaving = new Map<Settlement, Leaving>()

  constructor(rooms: Rooms, runs: RunKeeper, engine: FlowEngine) {
    this.#rooms = rooms
    this.#runs = runs
    this.#engine = engine
  }

  /** Starts a task that the worker has, or lets it wait for a slot. A loss is decided on at once: nothing runs for that. */
  enter(room: OwnRoom, task: ClaimedTask, claim: ClaimTimes): void {
    if (task.isUndecided) return this.#run(room, { task, claim })
    if (room.isHeld) return this.#release([{ task }])
    room.add({ task, claim })
    this.#fill(room)
  }

  /** An attempt has ended. Returns its settlement, which asks to keep an item if there is a place for it. */
  leave(room: OwnRoom, task: ClaimedTask, settlement: Settlement): Settlement {
    room.running--
    const { outcome, attempt } = settlement
    if (attempt !== undefined) room.ended(attempt.endedAt - attempt.startedAt)
    if (outcome.type === 'deferred') this.#hold(room, task)
    if (!room.isHeld) this.#fill(room)
    if (outcome.type !== 'advanced') {
      this.#leaving.set(settlement, { room, task, next: undefined, isAwaited: true })
      return settlement
    }
    const next = this.#placeAt(task.kind, outcome.to)
    if (next !== undefined) next.expected++
    const asked = next === undefined ? { ...settlement, outcome: { ...outcome, keep: false } } : settlement
    this.#leaving.set(asked, { room, task, next, isAwaited: true })
    return asked
  }

  /**
   * A settlement waits for a lock, maybe for long. Its stage goes on, since an item that meets the rate limit again holds it,
   * and the next stage gives the item's place to another.
   */
  locked(settlement: Settlement): void {
    const leaving = this.#leaving.get(settlement)
    if (leaving !== undefined) stopAwaiting(leaving, settlement)
  }

  /** A settlement is on record. */
  answered(settlement: Settlement, answer: Settled, sentAt: number): void {
    const leaving = this.#leaving.get(settlement)
    if (leaving === undefined) return
    this.#leaving.delete(settlement)
    const { room, task, next, isAwaited } = leaving
    stopAwaiting(leaving, settlement)
    const { outcome } = settlement
    if (room.stage !== undefined) this.#runs.settled(task.key, outcome)
    if (answer.isStopped) this.release(task.key)
    if (next === undefined || answer.result !== 'kept' || outcome.type !== 'advanced') return
    const kept = advancedTask(task, outcome, answer)
    // An item that waited for a lock may find its place taken.
    const hasPlace = isAwaited || next.places > 0
    if (this.#engine.isOpen() && !answer.isStopped && hasPlace) this.enter(next, kept, { now: answer.now, sentAt })
    else this.#release([{ task: kept }])
  }

  /** Hands back the tasks that wait for a slot, or the items of one run. */
  release(run?: string): void {
    for (const room of this.#rooms.own)
      this.#release(room.remove(({ task }) => run === undefined || (room.stage !== undefined && task.key === run)))
  }

  /** Ends the tasks with these tokens that wait for a slot. */
  cancel(tokens: readonly string[]): void {
    for (const room of this.#rooms.own) {
      for (const { task } of room.remove(({ task: { token } }) => tokens.includes(token)))
        this.#engine.settle({ id: task.id, token: task.token, outcome: { type: 'cancelled' } })
    }
  }

  /** Follows the settings of a run: nothing of it starts while it is paused, and stages run as many items as it says. */
  follow(run: RunRecord): void {
    if (!isGoingOn(run)) this.release(run.id)
    for (const room of this.#rooms.own) {
      if (room.stage === undefined) continue
      room.resize(slotsOf(room, room.stage, this.#runs.records))
      this.#fill(room)
    }
  }

  /** The room of a stage, if it has a place for one more item and this worker runs it at all. */
  #placeAt(kind: string, stage: string): OwnRoom | undefined {
    const room = this.#rooms.ownRoom({ kind, category: stage })
    return room !== undefined && room.places > 0 && this.#engine.isOpen() ? room : undefined
  }

  /** A rate limit holds the stage, or the lane of a task: what has not started there goes back, at no cost. */
  #hold(room: OwnRoom, task: ClaimedTask): void {
    room.isHeld = room.stage !== undefined
    this.#release(room.remove(other => room.isHeld || isSameLane(other.task, task)))
  }

  #fill(room: OwnRoom): void {
    if (room.isFilling) return
    room.isFilling = true
    for (let item = room.next(); item !== undefined; item = room.next()) this.#run(room, item)
    room.isFilling = false
  }

  #run(room: OwnRoom, { task, claim }: BufferedTask): void {
    room.running++
    // Its attempt begins now, however long ago it was claimed.
    const waitedMs = Math.round(this.#engine.monotonic() - claim.sentAt)
    this.#engine.run(task, room.kind, { now: claim.now + waitedMs, sentAt: claim.sentAt + waitedMs })
  }

  #release(items: readonly Pick<BufferedTask, 'task'>[]): void {
    for (const { task } of items) this.#engine.settle({ id: task.id, token: task.token, outcome: { type: 'released' } })
  }
}

/** Gives up what is kept for an item until its settlement is answered. */
function stopAwaiting(leaving: Leaving, { outcome }: Settlement): void {
  if (!leaving.isAwaited) return
  leaving.isAwaited = false
  if (outcome.type === 'deferred') leaving.room.isHeld = false
  if (leaving.next !== undefined) leaving.next.expected--
}

/** Whether items of a run start. */
function isGoingOn({ status }: RunRecord): boolean {
  return status === 'running' || status === 'interrupted'
}

/** The smallest number that a run asks for whose items start; otherwise the stage's own. */
function slotsOf({ kind }: OwnRoom, stage: string, runs: readonly RunRecord[]): number | undefined {
  const asked = runs
    .filter(run => isGoingOn(run) && kind.kind === itemKind(run.pipeline))
    .flatMap(({ settings }) => ownValue(settings.concurrency, stage) ?? [])
  return asked.length === 0 ? undefined : Math.min(...asked)
}

/** An item at its next stage, as the store has it now. It has not waited, so it stays in its trace. */
function advancedTask(
  task: ClaimedTask,
  { to, value }: Advanced,
  { token, now }: Extract<Settled, { readonly result: 'kept' }>,
): ClaimedTask {
  // Written out: a copy with changes takes four times as long.
  return {
    id: task.id,
    kind: task.kind,
    category: to,
    key: task.key,
    payload: task.payload,
    value,
    status: task.status,
    priority: task.priority,
    submittedAt: task.submittedAt,
    startedAt: now,
    nextAttemptAt: undefined,
    attempts: 0,
    deferrals: 0,
    losses: 0,
    previousDelayMs: undefined,
    errorClass: undefined,
    errorCode: undefined,
    errorMessage: undefined,
    group: undefined,
    reason: undefined,
    result: undefined,
    changedAt: now,
    traceparent: task.traceparent,
    operation: task.operation,
    token,
    isFirst: task.isFirst,
    isUndecided: task.isUndecided,
    hasSteps: task.hasSteps,
  }
}
