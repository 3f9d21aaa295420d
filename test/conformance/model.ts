import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import type { Lane, LaneLimits, NewTask, Retention, TaskRecord, TaskStatus } from '../../src/store/index.js'
import type {
  AttemptEntry,
  BudgetScope,
  Claim,
  ClaimedTask,
  ClaimRequest,
  LiveNotes,
  Outcome,
  Room,
  Settled,
  Settlement,
  UniqueKey,
} from '../../src/store/internal.js'

import { BatchModel } from './batch-model.js'
import { BudgetModel, isCovering, type ModelBudgetSettings, type ModelGate } from './budget-model.js'
import { ScheduleModel } from './schedule-model.js'
import { nOf, UniqueModel } from './unique-model.js'

/** A task as the model knows it. */
export interface ModelTask extends Lane {
  category: string
  value: string | undefined
  readonly id: string
  readonly unique: UniqueKey | undefined
  priority: number
  readonly submittedAt: number
  status: TaskStatus
  changedAt: number
  dueAt: number
  attempts: number
  deferrals: number
  losses: number
  group: string | undefined
  /** The name of the retry budget that it waits under. */
  budget: string | undefined
  /** It died while its lane was to stop at dead letters. */
  blocks: boolean
  isUndecided: boolean
  isToBeCancelled: boolean
  run: { readonly worker: string; readonly token: string; readonly startedAt: number } | undefined
  /** The last advance, until the item is claimed or settled again. */
  advance: { readonly token: string; readonly to: string; readonly answer: Settled } | undefined
  /** Its field, if it has one: payloads have no other. */
  n: number | undefined
  readonly ledger: string[]
  /** The notes of each attempt that was lost. */
  readonly lostNotes: (LiveNotes['notes'] | undefined)[]
  /** Its steps by name, each with whether it is done. */
  readonly steps: Map<string, boolean>
  /** The operation that moved it last, if that was the last redrive or discard, and its state before that. */
  moved: { readonly operation: string; readonly at: number; readonly before: DeadState } | undefined
  /** The operation that changed its time or its priority last, while it waited, and what they were before. */
  arranged: { readonly operation: string; readonly at: number; readonly before: Place } | undefined
}

/** The part of a waiting task that can be changed from outside. */
type Place = Pick<ModelTask, 'dueAt' | 'priority'>

/** The part of a dead letter that a redrive or a discard changes. */
type DeadState = Pick<ModelTask, 'changedAt' | 'attempts' | 'deferrals'> & Partial<Pick<ModelTask, 'n'>>

interface ModelLane extends Lane {
  heldUntil: number
  /** The task that holds it. */
  heldBy: string | undefined
  allowance: number
  limits: ModelLimits
  /** The time of the last start if all starts had come evenly. */
  evenlyUntil: number
}

type ModelLimits = Required<Omit<LaneLimits, 'onDead'>> & { readonly onDead: 'block' | undefined }

type LaneFilter = Partial<Lane> & { readonly kind: string }

/** The rows that acts on waiting tasks leave on the ledger. */
const ARRANGED = { promote: 'promoted', reschedule: 'rescheduled', prioritize: 'prioritized' } as const

const NO_LIMITS: ModelLimits = { concurrency: Infinity, perSecond: Infinity, isOrdered: false, onDead: undefined }

/**
 * The simplest possible store: a list of tasks that every question searches. It does not predict whose turn it is: it
 * checks that a claim was possible, and then follows it.
 */
export class StoreModel {
  now: number
  readonly tasks = new Map<string, ModelTask>()
  readonly budgets = new BudgetModel()
  readonly batches = new BatchModel(this)
  readonly uniques = new UniqueModel(this)
  readonly schedules = new ScheduleModel(this)
  readonly #pauses: { readonly lanes: LaneFilter; readonly isPaused: boolean }[] = []
  readonly #limits: { readonly lanes: LaneFilter; readonly limits: ModelLimits }[] = []
  readonly #lanes = new Map<string, ModelLane>()
  readonly #leases = new Map<string, { readonly surelyUntil: number; readonly perhapsUntil: number }>()
  /** What workers have told with their last heartbeats. */
  readonly #notes = new Map<string, Readonly<Record<string, LiveNotes>>>()
  #reports = 0

  constructor(now: number) {
    this.now = now
  }

  lane({ kind, category, key }: Lane): ModelLane {
    const name = JSON.stringify([kind, category, key])
    const named = { kind, category, key }
    const limits = this.#limits.findLast(({ lanes }) => isWithin(lanes, named))?.limits ?? NO_LIMITS
    const fresh = {
      ...named,
      limits,
      allowance: Infinity,
      heldUntil: -Infinity,
      heldBy: undefined,
      evenlyUntil: -Infinity,
    }
    const lane = this.#lanes.get(name) ?? fresh
    this.#lanes.set(name, lane)
    return lane
  }

  pause(lanes: LaneFilter, isPaused: boolean): void {
    this.#pauses.push({ lanes, isPaused })
  }

  /** The last rule that matches a lane holds. */
  isPaused(lane: Lane): boolean {
    return this.#pauses.findLast(({ lanes }) => isWithin(lanes, lane))?.isPaused ?? false
  }

  /** The last rule that matches a lane holds. A new rate begins with one second's worth. */
  limit(lanes: LaneFilter, limits: LaneLimits): void {
    const said = { ...NO_LIMITS, ...limits, onDead: limits.onDead }
    if (said.isOrdered) said.concurrency = Math.min(1, said.concurrency)
    this.#limits.push({ lanes, limits: said })
    for (const lane of this.#lanes.values()) {
      if (isWithin(lanes, lane) && !isDeepStrictEqual(lane.limits, said))
        Object.assign(lane, { limits: said, evenlyUntil: -Infinity })
    }
  }

  add({
    id,
    kind,
    category = '',
    key = '',
    priority = 0,
    submittedAt = 0,
    runAt = 0,
    unique,
    payload,
  }: NewTask & { id: string }): boolean {
    if (this.tasks.has(id)) return false
    const fresh = { attempts: 0, deferrals: 0, losses: 0, isUndecided: false, isToBeCancelled: false }
    const place = { id, kind, category, key, priority, submittedAt, unique }
    const task = { ...place, dueAt: runAt, changedAt: this.now, ...fresh }
    const none = {
      run: undefined,
      advance: undefined,
      value: undefined,
      group: undefined,
      moved: undefined,
      arranged: undefined,
    }
    this.tasks.set(id, {
      ...task,
      ...none,
      budget: undefined,
      blocks: false,
      n: nOf({ payload }),
      status: 'waiting',
      ledger: [],
      lostNotes: [],
      steps: new Map(),
    })
    return true
  }

  /** Deletes ended tasks that are older than their retention. Returns how many. */
  prune({ endedMs = Infinity, deadMs = Infinity }: Retention): number {
    this.batches.prune({ endedMs, deadMs })
    this.schedules.prune({ endedMs })
    const over = [...this.tasks.values()].filter(task => {
      const { status, changedAt } = task
      if (status === 'waiting' || status === 'running' || this.#isBlocking(task)) return false
      if (this.batches.isKept(task.id)) return false
      return changedAt <= this.now - (status === 'dead' ? deadMs : endedMs)
    })
    for (const { id } of over) this.tasks.delete(id)
    return over.length
  }

  /** Sets a budget, or lifts it. Returns whether there was one. */
  setBudget(scope: BudgetScope, settings: ModelBudgetSettings | undefined): boolean {
    const before = this.budgets.settingsOf(scope)
    const wasThere = settings === undefined && this.budgets.lift(scope)
    if (settings !== undefined) this.budgets.set(scope, settings, this.now)
    const isOfRetries = before?.retries !== undefined || settings?.retries !== undefined
    if (!isOfRetries || isDeepStrictEqual(before, settings)) return wasThere
    for (const task of this.tasks.values()) {
      if (task.kind !== scope.kind || task.status !== 'waiting') continue
      const isRetryAhead = task.attempts > 0 && task.dueAt > this.now && !this.lane(task).limits.isOrdered
      if (isRetryAhead || task.budget !== undefined) task.budget = this.budgets.retryBudgetOf(task)
    }
    return wasThere
  }

  /** The tasks that wait under retry budgets. */
  get budgeted(): ModelTask[] {
    return [...this.tasks.values()].filter(({ budget }) => budget !== undefined)
  }

  /**
   * Checks that the retries that are budgeted no more were due first, and are as many as their budgets allow. A settlement
   * that is no claim leaves those that must have waited for what later ones of its call have earned.
   */
  letThrough(isBudgeted: (id: string) => boolean, isClaim: boolean): void {
    for (const [name, retries] of byAllowance(this.budgeted, budget => this.budgets.allowanceOf(budget))) {
      const left = this.budgets.retriesLeft(name, this.now)
      const gone = retries.filter(({ id }) => !isBudgeted(id))
      const passed = isClaim ? gone : gone.sort(byDue).slice(0, left)
      const due = retries.filter(({ dueAt }) => dueAt <= this.now)
      const most = Math.min(due.length, left)
      if (isClaim) assert.equal(passed.length, most, `how many retries ${name} let through`)
      const lastAt = Math.max(-Infinity, ...passed.map(({ dueAt }) => dueAt))
      const firstLeft = retries.filter(({ id, dueAt }) => isBudgeted(id) && dueAt < lastAt)
      assert.deepEqual(idsOf(firstLeft), [], 'retries that were due first')
      if (passed.length > 0)
        this.budgets.pass(
          passed.flatMap(({ budget }) => budget ?? []),
          this.now,
        )
      for (const task of passed) task.budget = undefined
    }
  }

  /** How many retries are due that a budget has not let through. */
  heldBy(name: string): number {
    return this.budgeted.filter(({ budget, dueAt }) => budget === name && dueAt <= this.now).length
  }

  /** How many tasks of a kind and category could start now, whatever their turn; `undefined` if a gate may be open there. */
  readyIn(part: Pick<Lane, 'kind' | 'category'>): number | undefined {
    const isGated = this.budgets.isGated({ ...part, key: '' })
    if (isGated !== false) return isGated === true ? 0 : undefined
    const { kind, category } = part
    const tasks = this.#claimable([{ kinds: [kind], categories: [category] }])
    const lanes = new Map<ModelLane, ModelTask[]>()
    for (const task of tasks) lanes.set(this.lane(task), [...(lanes.get(this.lane(task)) ?? []), task])
    const counts = [...lanes].map(([lane, { length }]) => Math.min(length, this.#startsIn(lane)))
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /** The ids of dead tasks; all ids if there are none. */
  idsByDeath(): string[] {
    const tasks = [...this.tasks.values()]
    const dead = tasks.filter(({ status }) => status === 'dead')
    return (dead.length > 0 ? dead : tasks).map(({ id }) => id)
  }

  /** Checks that a claim gave the tasks that it could, room by room and in order, and follows it. */
  claim(request: ClaimRequest, { tasks, now, nextAt, isAloneWaiting }: Claim): void {
    const { worker, leaseMs, rooms, limit, isIdle } = request
    assert.equal(now, this.now)
    this.#renew(worker, tasks.length > 0 ? leaseMs : leaseMs / 2, leaseMs)

    const gates = this.budgets.gates(now, scope => !this.#running(() => true).some(task => isCovering(scope, task)))
    const alone = isIdle ? this.#firstAlone(rooms, limit, gates) : undefined
    const given = [...tasks]
    if (alone !== undefined) {
      assert.deepEqual(idsOf(tasks), [alone.id], 'what must run alone comes first, and alone')
      this.#start(alone, given.shift(), worker, gates)
    }
    let left = alone === undefined ? limit : 0
    for (const [index, room] of rooms.entries()) {
      const inRoom = () =>
        this.#claimable(rooms, gates).filter(task => roomOf(rooms, task) === index && !this.#isKept(task))
      let places = placesIn(room, left)
      while (places > 0 && given[0] !== undefined && roomOf(rooms, given[0]) === index) {
        const { kind, category, key } = given[0]
        // In each room all lanes without a key have one turn together, except that those behind a gate are apart.
        const turn = key === '' ? { key } : { kind, category, key }
        const gate = narrowest(gates, given[0])
        this.#start(
          inRoom().find(task => isWithin(turn, task) && narrowest(gates, task) === gate),
          given.shift(),
          worker,
          gates,
        )
        places--
        left--
      }
      if (places > 0) assert.deepEqual(idsOf(inRoom()), [], `left behind in room ${index}`)
    }
    assert.deepEqual(idsOf(given), [], 'more than the limits allow, or not in the order of the rooms')
    assert.equal(isAloneWaiting, this.#claimable(rooms, gates).some(isAlone), 'isAloneWaiting')

    const opening = this.#nextOpening(rooms, gates)
    assert.ok(opening === Infinity || (nextAt ?? Infinity) <= opening, `nextAt is ${nextAt}, but ${opening} has work`)
    if (tasks.length < limit) assert.ok((nextAt ?? Infinity) > now, 'nextAt is over, but nothing was given')
  }

  /** Records a step. Returns whether the token holds. */
  recordStep(id: string, token: string, name: string, isDone: boolean): boolean {
    const task = this.tasks.get(id)
    if (task?.run?.token !== token) return false
    if (task.steps.get(name) !== true) task.steps.set(name, isDone)
    return true
  }

  /** Forgets the result of a step, and perhaps of those that were first recorded after it. Their records stay. */
  forget(id: string, name: string, isAndLater: boolean): void {
    const { steps } = this.tasks.get(id) ?? {}
    if (!steps?.has(name)) return
    const names = [...steps.keys()]
    for (const forgotten of isAndLater ? names.slice(names.indexOf(name)) : [name]) steps.set(forgotten, false)
  }

  /** Checks the answer to a settlement, and follows it. `isBudgeted` tells of the tasks after the whole call. */
  settle(settlement: Settlement, answer: Settled | undefined, isBudgeted: (id: string) => boolean): void {
    const { id, token, outcome, attempt } = settlement
    // Whoever keeps an item must not go before retries that are due.
    const letThrough = () => {
      if (outcome.type === 'advanced' && outcome.keep) this.letThrough(isBudgeted, false)
    }
    const task = this.tasks.get(id)
    if (task?.run?.token !== token) {
      letThrough()
      const { advance } = task ?? {}
      const isRepeated = outcome.type === 'advanced' && advance?.token === token && advance.to === outcome.to
      return assert.deepEqual(answer, isRepeated ? advance.answer : { result: 'stale' })
    }
    const { worker } = task.run
    if (outcome.type === 'lost') this.#lose(task, attempt?.notes)
    this.#end(task, outcome.type === 'lost' ? { type: 'released' } : outcome, attempt)
    // What the attempt has earned may pass at once.
    letThrough()
    if (outcome.type !== 'advanced' || task.status === 'cancelled')
      return assert.deepEqual(answer, { result: 'settled' })

    const lane = [{ kinds: [task.kind], categories: [task.category] }]
    const others = this.#claimable(lane).filter(other => other.key === task.key && !this.#isKept(other))
    const isGated = this.budgets.isGated(task)
    const isStopped = [...this.tasks.values()].some(
      other => this.#isBlocking(other) && this.lane(other) === this.lane(task),
    )
    const isKept = outcome.keep && others[0] === task && isGated !== true && !isStopped
    // Stores judge a gate after each settlement, or after all of a call.
    const expected = isKept && isGated !== 'perhaps' ? ['kept'] : ['settled', ...(isKept ? ['kept'] : [])]
    assert.ok(answer !== undefined && expected.includes(answer.result), `${id} should be ${expected.join(' or ')}`)
    if (answer?.result === 'kept') {
      assert.equal(answer.now, this.now)
      assert.notEqual(answer.token, token)
      this.#startRun(task, worker, answer.token)
    }
    task.advance = { token, to: outcome.to, answer }
  }

  /** Reports a progress for each task that the worker runs. */
  notesOf(worker: string): Record<string, LiveNotes> {
    const running = this.#running(run => run.worker === worker)
    const fraction = (this.#reports++ % 100) / 100
    return Object.fromEntries(
      running.map(({ id, run }) => [id, { since: run?.startedAt ?? 0, notes: { progress: { fraction } } }]),
    )
  }

  heartbeat(
    worker: string,
    leaseMs: number,
    notes?: Readonly<Record<string, LiveNotes>>,
  ): { cancelled: string[]; rescued: number } {
    this.#renew(worker, leaseMs, leaseMs)
    this.#notes.set(worker, notes ?? {})
    let rescued = 0
    for (const task of this.#running(({ worker }) => (this.#leases.get(worker)?.surelyUntil ?? Infinity) <= this.now)) {
      if (!task.isUndecided) {
        const told = this.#notes.get(task.run?.worker ?? '')?.[task.id]
        this.#lose(task, told?.since === task.run?.startedAt ? told?.notes : undefined)
      }
      rescued++
      this.#end(task, { type: 'released' }, undefined)
    }
    const own = this.#running(run => run.worker === worker).filter(({ isToBeCancelled }) => isToBeCancelled)
    return { cancelled: own.map(({ run }) => run?.token ?? ''), rescued }
  }

  #lose(task: ModelTask, notes: LiveNotes['notes'] | undefined): void {
    task.losses++
    task.isUndecided = true
    task.group = `lost:${task.kind}`
    task.ledger.push('lost')
    task.lostNotes.push(notes)
  }

  /** Whether some lease may or may not have expired, so that it is not known whom a heartbeat rescues. */
  get isUnsure(): boolean {
    return [...this.#leases.values()].some(lease => lease.surelyUntil <= this.now && this.now < lease.perhapsUntil)
  }

  leave(worker: string): void {
    this.#notes.delete(worker)
    for (const task of this.#running(run => run.worker === worker)) this.#end(task, { type: 'released' }, undefined)
  }

  isIdle(worker: string): boolean {
    return this.#running(run => run.worker === worker).length === 0
  }

  cancel(id: string): boolean {
    const task = this.tasks.get(id)
    if (task === undefined || task.isToBeCancelled) return false
    if (task.status === 'running') {
      task.isToBeCancelled = true
      task.ledger.push('cancel_requested')
    } else if (task.status === 'waiting') {
      this.#withdraw(task)
      task.ledger.push('cancelled')
    } else return false
    return true
  }

  #withdraw(task: ModelTask): void {
    const lane = this.lane(task)
    const isHead = lane.limits.isOrdered && lane.heldBy === task.id && task.ledger.at(-1) !== 'deferred'
    if (isHead) Object.assign(lane, { heldUntil: -Infinity, heldBy: undefined })
    Object.assign(task, { status: 'cancelled', changedAt: this.now, budget: undefined })
    this.uniques.release(task)
  }

  complete(id: string): boolean {
    const task = this.tasks.get(id)
    if (task?.status !== 'waiting' && task?.status !== 'dead' && task?.status !== 'cancelled') return false
    if (task.status === 'waiting') this.#withdraw(task)
    Object.assign(task, { status: 'succeeded', changedAt: this.now, attempts: 0, deferrals: 0, losses: 0 })
    Object.assign(task, { group: undefined, value: undefined, isUndecided: false, moved: undefined })
    task.advance = undefined
    task.ledger.push('completed')
    return true
  }

  fail(id: string): boolean {
    const task = this.tasks.get(id)
    if (task?.status !== 'waiting' && task?.status !== 'cancelled') return false
    if (task.status === 'waiting') this.#withdraw(task)
    Object.assign(task, { status: 'dead', changedAt: this.now, isUndecided: false, moved: undefined })
    task.blocks = this.lane(task).limits.onDead === 'block'
    task.advance = undefined
    task.ledger.push('failed')
    return true
  }

  delete(id: string): boolean {
    const task = this.tasks.get(id)
    if (task === undefined || task.status === 'running' || this.batches.isKept(id)) return false
    if (task.status === 'waiting') this.#withdraw(task)
    this.tasks.delete(id)
    return true
  }

  /** Gives up a task that waits, unless its lane is paused: its time to live is over. */
  expire(id: string): boolean {
    const task = this.tasks.get(id)
    if (task?.status !== 'waiting' || this.isPaused(task)) return false
    Object.assign(task, { status: 'dead', changedAt: this.now, budget: undefined, isUndecided: false })
    task.blocks = this.lane(task).limits.onDead === 'block'
    task.advance = undefined
    this.uniques.release(task)
    return true
  }

  edit(id: string, n: number): boolean {
    const task = this.tasks.get(id)
    if (task?.status !== 'waiting' && task?.status !== 'dead') return false
    task.n = n
    task.ledger.push('edited')
    return true
  }

  /** With a patch, the field of the payload becomes another, or goes if it is `null`. */
  redrive(id: string, operation?: string, patch?: { readonly n: number | null }): boolean {
    const task = this.tasks.get(id)
    if (task?.status !== 'dead') return false
    const n = patch === undefined ? task.n : (patch.n ?? undefined)
    this.#mark(task, operation, n)
    task.n = n
    Object.assign(task, { status: 'waiting', dueAt: this.now, changedAt: this.now, attempts: 0, deferrals: 0 })
    task.ledger.push('redriven')
    return true
  }

  discard(id: string, operation?: string): boolean {
    const task = this.tasks.get(id)
    if (task?.status !== 'dead') return false
    this.#mark(task, operation, task.n)
    Object.assign(task, { status: 'cancelled', changedAt: this.now })
    task.ledger.push('discarded')
    return true
  }

  /** The dead letters of a kind. */
  deadOf(kind: string): string[] {
    return [...this.tasks.values()].filter(task => task.kind === kind && task.status === 'dead').map(({ id }) => id)
  }

  /** Changes the time or the priority of all tasks of a kind that wait. Returns the ids of those that it changed. */
  arrange(
    act: 'promote' | 'reschedule' | 'prioritize',
    kind: string,
    place: Partial<Place>,
    operation: string,
  ): string[] {
    return [...this.tasks.values()]
      .filter(task => task.kind === kind && task.status === 'waiting' && this.#arrange(task, place))
      .map(task => {
        const { dueAt, priority } = task
        task.arranged = { operation, at: this.now, before: { dueAt, priority } }
        Object.assign(task, place)
        task.ledger.push(ARRANGED[act])
        return task.id
      })
  }

  /** Whether a waiting task can have another place. The head of an ordered lane can be made due, which ends its hold. */
  #arrange(task: ModelTask, place: Partial<Place>): boolean {
    if (this.uniques.isQueued(task)) return false
    const { dueAt = task.dueAt, priority = task.priority } = place
    const isDueAnyway = Math.max(dueAt, task.dueAt) <= this.now
    if (priority === task.priority && (dueAt === task.dueAt || isDueAnyway)) return false
    const lane = this.lane(task)
    if (!lane.limits.isOrdered) return true
    if (priority !== task.priority || dueAt > this.now || task.ledger.at(-1) === 'deferred') return false
    if (lane.heldBy === task.id) Object.assign(lane, { heldUntil: -Infinity, heldBy: undefined })
    return true
  }

  /** Gives tasks the place back that they had before an operation changed it. Returns how many. */
  #unarrange(operation: string): number {
    const back = [...this.tasks.values()].filter(task => {
      const { arranged, status, changedAt, ledger } = task
      const isLast = Object.values(ARRANGED).some(outcome => outcome === ledger.at(-1))
      if (arranged?.operation !== operation || status !== 'waiting' || changedAt > arranged.at || !isLast) return false
      return this.#arrange(task, arranged.before)
    })
    for (const task of back) {
      Object.assign(task, task.arranged?.before, { arranged: undefined })
      task.ledger.push('undone')
    }
    return back.length
  }

  /** Puts back what an operation has moved and nothing has touched since. Returns how many. */
  undo(operation: string): number {
    if ([...this.tasks.values()].some(({ arranged }) => arranged?.operation === operation))
      return this.#unarrange(operation)
    const back = [...this.tasks.values()].filter(({ moved, status, ledger, changedAt }) => {
      if (moved?.operation !== operation || changedAt !== moved.at) return false
      const last = ledger.at(-1)
      return (status === 'waiting' && last === 'redriven') || (status === 'cancelled' && last === 'discarded')
    })
    for (const task of back) {
      Object.assign(task, { status: 'dead', isUndecided: false, ...task.moved?.before, moved: undefined })
      task.blocks = this.lane(task).limits.onDead === 'block'
      task.ledger.push('undone')
      this.uniques.release(task)
    }
    return back.length
  }

  /** Notes what an undo puts back: the payload too, if the operation makes it another one. */
  #mark(task: ModelTask, operation: string | undefined, newN: ModelTask['n']): void {
    const { changedAt, attempts, deferrals, n } = task
    const before = { changedAt, attempts, deferrals, ...(n !== newN && { n }) }
    task.moved = operation === undefined ? undefined : { operation, at: this.now, before }
  }

  /** Returns the fields that the store should report for a task. */
  expected(task: ModelTask): Partial<TaskRecord> {
    const { status, category, value, priority, dueAt, changedAt, attempts, deferrals, losses, group } = task
    const isQueued = (status === 'waiting' && this.uniques.isQueued(task)) || undefined
    const nextAttemptAt = status === 'waiting' && !isQueued ? dueAt : undefined
    const unique = task.unique && { key: task.unique.key, while: task.unique.while }
    const operation = task.moved?.operation
    const isBudgeted = task.budget === undefined ? undefined : true
    const counters = { attempts, deferrals, losses }
    const payload = payloadOf(task)
    return {
      status,
      payload,
      category,
      value,
      priority,
      changedAt,
      ...counters,
      group,
      nextAttemptAt,
      operation,
      isBudgeted,
      isQueued,
      unique,
    }
  }

  /** Moves all tasks of a group to another one. Returns their ids. */
  regroup(from: string, to: string): string[] {
    const members = [...this.tasks.values()].filter(({ group }) => group === from)
    for (const task of members) task.group = to
    return members.map(({ id }) => id)
  }

  #end(task: ModelTask, asked: Outcome, attempt: AttemptEntry | undefined): void {
    const { run, isUndecided } = task
    const waits = !isOver(asked.type)
    const outcome: Outcome = waits && task.isToBeCancelled ? { type: 'cancelled' } : asked
    const type = outcome.type
    const isDecision = isUndecided && (asked.type === 'retry' || asked.type === 'dead')
    const isCounted = attempt !== undefined && asked.type !== 'released' && !isDecision
    const group = attempt?.group?.id
    this.#tellBudgets(task, outcome, isCounted ? attempt : undefined)
    if (isCounted && type !== 'released') task.ledger.push(type)
    if (isCounted && (type === 'retry' || type === 'dead')) task.attempts++
    if (isCounted && type === 'deferred') task.deferrals++
    if (isCounted && group !== undefined) task.group = group
    if (type === 'succeeded' || type === 'skipped' || type === 'advanced') {
      const value = type === 'advanced' ? outcome.value : undefined
      Object.assign(task, { attempts: 0, deferrals: 0, losses: 0, group: undefined, value })
    }

    const lane = this.lane(task)
    const { isOrdered } = lane.limits
    const isAnswer = isCounted && type !== 'cancelled' && (run?.startedAt ?? 0) >= lane.heldUntil
    if (type === 'deferred') lane.allowance = 1
    else if (isAnswer && !isOrdered) lane.allowance++
    const holds = type === 'deferred' || (isOrdered && 'delayMs' in outcome)
    if (holds && this.now + outcome.delayMs >= lane.heldUntil)
      Object.assign(lane, { heldUntil: this.now + outcome.delayMs, heldBy: task.id })

    if (type === 'retry' || type === 'deferred' || type === 'later') task.dueAt = this.now + outcome.delayMs
    if (type === 'released' || type === 'advanced') task.dueAt = this.now
    if (type === 'advanced') task.category = outcome.to
    if (type === 'retry' && !isDecision) task.budget = this.budgets.retryBudgetOf(task)
    task.status = isOver(type) ? type : 'waiting'
    if (type === 'dead') task.blocks = lane.limits.onDead === 'block'
    const isStillUndecided = isUndecided && type === 'released'
    Object.assign(task, { changedAt: this.now, run: undefined, advance: undefined })
    Object.assign(task, { isToBeCancelled: false, isUndecided: isStillUndecided })
    if (isOver(type)) this.uniques.release(task)
  }

  /** A failure counts unless it is the payload's or a rate limit's, and an attempt that is made again is no first one. */
  #tellBudgets(task: ModelTask, { type }: Outcome, attempt: AttemptEntry | undefined): void {
    const isOk = type === 'succeeded' || type === 'skipped' || type === 'advanced'
    const failed = attempt?.verdict?.class === 'retryable' ? 'failed' : 'none'
    const answer = attempt !== undefined && attempt.verdict === undefined && isOk ? 'ok' : failed
    const isFirst = attempt?.attempt === 1 && type !== 'deferred' && type !== 'later'
    this.budgets.ended(task, answer, isFirst, task.run?.startedAt ?? 0, this.now)
  }

  /** The task that an idle worker gets before all others. */
  #firstAlone(rooms: readonly Room[], limit: number, gates: readonly ModelGate[]): ModelTask | undefined {
    const open = rooms.map((room, index) => (placesIn(room, limit) > 0 ? index : undefined))
    const tasks = this.#claimable(rooms, gates).filter(isAlone)
    return open.map(index => tasks.find(task => roomOf(rooms, task) === index)).find(task => task !== undefined)
  }

  /** Whether a task must run alone, or waits in an ordered lane for one that must, or that a budget holds. */
  #isKept(task: ModelTask): boolean {
    if (isAlone(task)) return true
    const { kind, category, key } = task
    const isHeld = () => this.budgeted.some(other => isWithin({ kind, category, key }, other))
    return this.lane(task).limits.isOrdered && (this.#hasAlone(task) || isHeld())
  }

  /** Starts the task that a claim should give next, which must be the one that it gave. */
  #start(
    expected: ModelTask | undefined,
    claimed: ClaimedTask | undefined,
    worker: string,
    gates: readonly ModelGate[],
  ): void {
    assert.ok(expected !== undefined && claimed !== undefined, `${claimed?.id} could not be claimed`)
    assert.equal(claimed.id, expected.id, 'the order within its turn')
    assert.equal(claimed.isUndecided, expected.isUndecided, `whether ${claimed.id} is undecided`)
    assert.deepEqual([claimed.category, claimed.value], [expected.category, expected.value])
    this.#startRun(expected, worker, claimed.token)
    this.budgets.started(expected, gates, this.now)
  }

  #startRun(task: ModelTask, worker: string, token: string): void {
    const run = { worker, token, startedAt: this.now }
    Object.assign(task, { status: 'running', changedAt: this.now, run, advance: undefined })
    const lane = this.lane(task)
    lane.evenlyUntil = Math.max(lane.evenlyUntil, this.now) + 1000 / lane.limits.perSecond
  }

  /** The tasks that could be claimed, in order. */
  #claimable(rooms: readonly Room[], gates: readonly ModelGate[] = []): ModelTask[] {
    return this.#allowed(rooms)
      .filter(task => this.#opensAt(task) <= this.now && !isShut(gates, task))
      .sort(inOrder)
  }

  /** When the next task can be claimed that only time keeps back. */
  #nextOpening(rooms: readonly Room[], gates: readonly ModelGate[]): number {
    const looks = (task: ModelTask) =>
      gates.filter(gate => gate.left <= 0 && isCovering(gate.scope, task)).map(({ nextLook }) => nextLook)
    const opening = this.#allowed(rooms).map(task => Math.max(this.#opensAt(task), ...looks(task)))
    const retries = this.budgeted.filter(task => roomOf(rooms, task) >= 0)
    const asks = retries.map(({ dueAt, budget = '' }) =>
      dueAt > this.now ? dueAt : this.budgets.nextAsk(budget, this.now),
    )
    const times = [...opening, ...asks]
    return Math.min(Infinity, ...times.filter(at => at > this.now))
  }

  /**
   * When time lets a task start: its own, the hold of its lane, and its rate, which lets a second's worth start at
   * once.
   */
  #opensAt(task: ModelTask): number {
    if (this.uniques.isQueued(task)) return Infinity
    const { heldUntil, evenlyUntil, limits } = this.lane(task)
    return Math.max(task.dueAt, heldUntil, rateOpensAt(evenlyUntil, limits.perSecond))
  }

  /** How many tasks of a lane could start now, one after another. */
  #startsIn(lane: ModelLane): number {
    const { concurrency, perSecond, isOrdered } = lane.limits
    if (isOrdered && this.budgeted.some(task => this.lane(task) === lane)) return 0
    const places = Math.min(lane.allowance, concurrency) - this.#runningIn(lane)
    if (perSecond === Infinity) return places
    let starts = 0
    for (let { evenlyUntil } = lane; starts < places && rateOpensAt(evenlyUntil, perSecond) <= this.now; starts++)
      evenlyUntil = Math.max(evenlyUntil, this.now) + 1000 / perSecond
    return starts
  }

  #allowed(rooms: readonly Room[]): ModelTask[] {
    return [...this.tasks.values()].filter(
      task =>
        task.status === 'waiting' &&
        task.budget === undefined &&
        roomOf(rooms, task) >= 0 &&
        !this.isPaused(task) &&
        !this.#isBehindLetter(task) &&
        this.#runningIn(task) < Math.min(this.lane(task).allowance, this.lane(task).limits.concurrency),
    )
  }

  /** Whether a task is a dead letter at which its lane stops. */
  #isBlocking(task: ModelTask): boolean {
    return task.status === 'dead' && task.blocks && this.lane(task).limits.onDead === 'block'
  }

  #isBehindLetter(task: ModelTask): boolean {
    return [...this.tasks.values()].some(
      letter => this.#isBlocking(letter) && this.lane(letter) === this.lane(task) && inOrder(letter, task) < 0,
    )
  }

  #hasAlone({ kind, category, key }: Lane): boolean {
    const isReady = ({ status, dueAt, budget }: ModelTask) =>
      status === 'waiting' && dueAt <= this.now && budget === undefined
    const tasks = [...this.tasks.values()]
    return tasks.some(task => isReady(task) && isAlone(task) && isWithin({ kind, category, key }, task))
  }

  #runningIn({ kind, category, key }: Lane): number {
    return [...this.tasks.values()].filter(task => task.run && isWithin({ kind, category, key }, task)).length
  }

  #renew(worker: string, surelyMs: number, perhapsMs: number): void {
    const { surelyUntil = 0, perhapsUntil = 0 } = this.#leases.get(worker) ?? {}
    this.#leases.set(worker, {
      surelyUntil: Math.max(surelyUntil, this.now + surelyMs),
      perhapsUntil: Math.max(perhapsUntil, this.now + perhapsMs),
    })
  }

  #running(isMeant: (run: { readonly worker: string }) => boolean): ModelTask[] {
    return [...this.tasks.values()].filter(({ run }) => run !== undefined && isMeant(run))
  }
}

/** The order of the tasks of a lane. */
function inOrder(a: ModelTask, b: ModelTask): number {
  return b.priority - a.priority || a.submittedAt - b.submittedAt || (a.id < b.id ? -1 : 1)
}

/** The order in which budgets let retries through. */
function byDue(a: ModelTask, b: ModelTask): number {
  return a.dueAt - b.dueAt || (a.id < b.id ? -1 : 1)
}

/** When a rate lets the next task start. A second's worth may start at once. */
function rateOpensAt(evenlyUntil: number, perSecond: number): number {
  const savedUpMs = perSecond === Infinity ? Infinity : ((Math.max(1, perSecond) - 1) * 1000) / perSecond
  return Math.ceil(evenlyUntil - savedUpMs)
}

/** The tasks under each allowance of retries. */
function byAllowance(tasks: readonly ModelTask[], allowanceOf: (budget: string) => string): Map<string, ModelTask[]> {
  const allowances = new Map<string, ModelTask[]>()
  for (const task of tasks) {
    const name = allowanceOf(task.budget ?? '')
    allowances.set(name, [...(allowances.get(name) ?? []), task])
  }
  return allowances
}

/** Whether a gate lets no more tasks of a lane start. */
function isShut(gates: readonly ModelGate[], lane: Lane): boolean {
  return gates.some(gate => gate.left <= 0 && isCovering(gate.scope, lane))
}

/** The gate of a lane: that of its category, or else that of its kind. */
function narrowest(gates: readonly ModelGate[], lane: Lane): ModelGate | undefined {
  const covering = gates.filter(({ scope }) => isCovering(scope, lane))
  return covering.find(({ scope }) => scope.category !== undefined) ?? covering[0]
}

/** The payload of a task. */
export function payloadOf({ n }: Pick<ModelTask, 'n'>): string {
  return JSON.stringify({ n })
}

/** Whether a task is to run alone in its worker. */
function isAlone({ losses }: ModelTask): boolean {
  return losses >= 2
}

/** The first room that names a task; -1 if none does. */
function roomOf(rooms: readonly Room[], { kind, category }: Lane): number {
  return rooms.findIndex(({ kinds, categories = [category] }) => kinds.includes(kind) && categories.includes(category))
}

/** How many tasks a room may give, when the claim has places for this many more. */
function placesIn({ limit = Infinity }: Room, left: number): number {
  return Math.max(0, Math.min(limit, left))
}

function idsOf(tasks: readonly { readonly id: string }[]): string[] {
  return tasks.map(({ id }) => id)
}

/** Whether a lane agrees with every field that is given. */
function isWithin(lanes: Partial<Lane>, { kind, category, key }: Lane): boolean {
  return (lanes.kind ?? kind) === kind && (lanes.category ?? category) === category && (lanes.key ?? key) === key
}

function isOver(type: Outcome['type']): type is 'succeeded' | 'skipped' | 'dead' | 'cancelled' {
  return type === 'succeeded' || type === 'skipped' || type === 'dead' || type === 'cancelled'
}
