import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import type {
  Claim,
  ClaimRequest,
  Lane,
  LaneLimits,
  NewTask,
  Outcome,
  Retention,
  Settled,
  Settlement,
  TaskRecord,
  TaskStatus,
} from '../../store/index.js'

/** A task as the model knows it. */
export interface ModelTask extends Lane {
  readonly id: string
  readonly priority: number
  readonly submittedAt: number
  status: TaskStatus
  changedAt: number
  dueAt: number
  attempts: number
  deferrals: number
  losses: number
  isUndecided: boolean
  isToBeCancelled: boolean
  run: { readonly worker: string; readonly token: string; readonly startedAt: number } | undefined
  readonly ledger: string[]
}

interface ModelLane extends Lane {
  heldUntil: number
  allowance: number
  limits: Required<LaneLimits>
  /** When its starts so far would have been, had they come evenly. */
  evenlyUntil: number
}

type LaneFilter = Partial<Lane> & { readonly kind: string }

const NO_LIMITS: Required<LaneLimits> = { concurrency: Infinity, perSecond: Infinity, isOrdered: false }

/**
 * A store as simple as can be: a list of tasks, and every question answered by looking through it. It does not foresee
 * whose turn it is; a claim is checked against what was possible, and then believed.
 */
export class StoreModel {
  now: number
  readonly tasks = new Map<string, ModelTask>()
  readonly #pauses: { readonly lanes: LaneFilter; readonly isPaused: boolean }[] = []
  readonly #limits: { readonly lanes: LaneFilter; readonly limits: Required<LaneLimits> }[] = []
  readonly #lanes = new Map<string, ModelLane>()
  readonly #leases = new Map<string, { readonly surelyUntil: number; readonly perhapsUntil: number }>()

  constructor(now: number) {
    this.now = now
  }

  lane({ kind, category, key }: Lane): ModelLane {
    const name = JSON.stringify([kind, category, key])
    const named = { kind, category, key }
    const limits = this.#limits.findLast(({ lanes }) => isWithin(lanes, named))?.limits ?? NO_LIMITS
    const fresh = { ...named, limits, allowance: Infinity, heldUntil: -Infinity, evenlyUntil: -Infinity }
    const lane = this.#lanes.get(name) ?? fresh
    this.#lanes.set(name, lane)
    return lane
  }

  pause(lanes: LaneFilter, isPaused: boolean): void {
    this.#pauses.push({ lanes, isPaused })
  }

  /** The last word on a lane holds. */
  isPaused(lane: Lane): boolean {
    return this.#pauses.findLast(({ lanes }) => isWithin(lanes, lane))?.isPaused ?? false
  }

  /** The last word on a lane holds. A rate begins with a second's worth, unless it is the one that was there. */
  limit(lanes: LaneFilter, limits: LaneLimits): void {
    const said = { ...NO_LIMITS, ...limits }
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
  }: NewTask & { id: string }): boolean {
    if (this.tasks.has(id)) return false
    const fresh = { attempts: 0, deferrals: 0, losses: 0, isUndecided: false, isToBeCancelled: false }
    const task = { id, kind, category, key, priority, submittedAt, dueAt: runAt, changedAt: this.now, ...fresh }
    this.tasks.set(id, { ...task, status: 'waiting', run: undefined, ledger: [] })
    return true
  }

  /** Forgets what has been over for long enough. Returns how many. */
  prune({ endedMs = Infinity, deadMs = Infinity }: Retention): number {
    const over = [...this.tasks.values()].filter(({ status, changedAt }) => {
      if (status === 'waiting' || status === 'running') return false
      return changedAt <= this.now - (status === 'dead' ? deadMs : endedMs)
    })
    for (const { id } of over) this.tasks.delete(id)
    return over.length
  }

  /** All ids, those of the dead first. */
  idsByDeath(): string[] {
    const tasks = [...this.tasks.values()]
    const dead = tasks.filter(({ status }) => status === 'dead')
    return (dead.length > 0 ? dead : tasks).map(({ id }) => id)
  }

  /** Checks that a claim gave what it could give, in order, and takes it over. */
  claim(request: ClaimRequest, { tasks, now, nextAt, isAloneWaiting }: Claim): void {
    assert.equal(now, this.now)
    this.#renew(request.worker, tasks.length > 0 ? request.leaseMs : request.leaseMs / 2, request.leaseMs)
    const alone = () => this.#claimable(request).find(({ losses }) => losses > 0)
    // In an ordered lane, what must run alone goes before all others.
    const isBlocked = (task: ModelTask) => this.lane(task).limits.isOrdered && this.#hasAlone(task)
    const others = () => this.#claimable(request).filter(task => task.losses === 0 && !isBlocked(task))

    const first = request.isIdle && request.limit > 0 ? alone() : undefined
    if (first !== undefined) assert.deepEqual(idsOf(tasks), [first.id], 'what must run alone comes first, and alone')
    for (const { id, kind, category, key, token, isUndecided } of tasks) {
      // All lanes without a key have one turn together.
      const turn = key === '' ? { key } : { kind, category, key }
      const isSameTurn = (task: ModelTask) => isWithin(turn, task)
      const task = first ?? others().find(isSameTurn)
      assert.ok(task !== undefined, `${id} could not be claimed`)
      assert.equal(id, task.id, 'the order within its turn')
      assert.equal(isUndecided, task.isUndecided, `whether ${id} is undecided`)
      Object.assign(task, { status: 'running', changedAt: now, run: { worker: request.worker, token, startedAt: now } })
      const lane = this.lane(task)
      lane.evenlyUntil = Math.max(lane.evenlyUntil, now) + 1000 / lane.limits.perSecond
    }
    assert.ok(tasks.length <= request.limit, 'more than the limit')
    if (first === undefined && tasks.length < request.limit) assert.deepEqual(idsOf(others()), [], 'left behind')
    assert.equal(isAloneWaiting, alone() !== undefined, 'isAloneWaiting')

    const opening = this.#nextOpening(request)
    assert.ok(opening === Infinity || (nextAt ?? Infinity) <= opening, `nextAt is ${nextAt}, but ${opening} has work`)
    if (tasks.length < request.limit) assert.ok((nextAt ?? Infinity) > now, 'nextAt is over, but nothing was given')
  }

  settle({ id, token, outcome, attempt }: Settlement): Settled {
    const task = this.tasks.get(id)
    if (task?.run?.token !== token) return { result: 'stale' }
    this.#end(task, outcome, attempt !== undefined)
    return { result: 'settled' }
  }

  heartbeat(worker: string, leaseMs: number): { cancelled: string[]; rescued: number } {
    this.#renew(worker, leaseMs, leaseMs)
    let rescued = 0
    for (const task of this.#running(({ worker }) => (this.#leases.get(worker)?.surelyUntil ?? Infinity) <= this.now)) {
      if (!task.isUndecided) {
        task.attempts++
        task.losses++
        task.isUndecided = true
        task.ledger.push('lost')
      }
      rescued++
      this.#end(task, { type: 'released' }, false)
    }
    const own = this.#running(run => run.worker === worker).filter(({ isToBeCancelled }) => isToBeCancelled)
    return { cancelled: own.map(({ run }) => run?.token ?? ''), rescued }
  }

  /** Whether a lease is in the time that a store may give or not, so that nobody can say whom a heartbeat rescues. */
  get isUnsure(): boolean {
    return [...this.#leases.values()].some(lease => lease.surelyUntil <= this.now && this.now < lease.perhapsUntil)
  }

  leave(worker: string): void {
    for (const task of this.#running(run => run.worker === worker)) this.#end(task, { type: 'released' }, false)
  }

  isIdle(worker: string): boolean {
    return this.#running(run => run.worker === worker).length === 0
  }

  cancel(id: string): boolean {
    const task = this.tasks.get(id)
    if (task?.status === 'running') task.isToBeCancelled = true
    else if (task?.status === 'waiting') Object.assign(task, { status: 'cancelled', changedAt: this.now })
    else return false
    return true
  }

  redrive(id: string): boolean {
    const task = this.tasks.get(id)
    if (task?.status !== 'dead') return false
    Object.assign(task, { status: 'waiting', dueAt: this.now, changedAt: this.now, attempts: 0, deferrals: 0 })
    task.ledger.push('redriven')
    return true
  }

  /** What the store should say of a task. */
  expected({ status, dueAt, changedAt, attempts, deferrals, losses }: ModelTask): Partial<TaskRecord> {
    const nextAttemptAt = status === 'waiting' ? dueAt : undefined
    return { status, changedAt, attempts, deferrals, losses, nextAttemptAt }
  }

  #end(task: ModelTask, asked: Outcome, isAttempt: boolean): void {
    const { run, isUndecided } = task
    const waits = ['retry', 'deferred', 'later', 'released'].includes(asked.type)
    const outcome: Outcome = waits && task.isToBeCancelled ? { type: 'cancelled' } : asked
    const type = outcome.type
    const isCounted = isAttempt && !isUndecided
    if (isCounted && type !== 'released') task.ledger.push(type)
    if (isCounted && (type === 'retry' || type === 'dead')) task.attempts++
    if (isCounted && type === 'deferred') task.deferrals++
    if (type === 'succeeded' || type === 'skipped') Object.assign(task, { attempts: 0, deferrals: 0, losses: 0 })

    const lane = this.lane(task)
    const { isOrdered } = lane.limits
    const isAnswer = type !== 'released' && type !== 'cancelled' && (run?.startedAt ?? 0) >= lane.heldUntil
    if (type === 'deferred') lane.allowance = 1
    else if (isAnswer && !isOrdered) lane.allowance++
    if (type === 'deferred' || (isOrdered && 'delayMs' in outcome))
      lane.heldUntil = Math.max(lane.heldUntil, this.now + outcome.delayMs)

    if (type === 'retry' || type === 'deferred' || type === 'later') task.dueAt = this.now + outcome.delayMs
    if (type === 'released') task.dueAt = this.now
    task.status = type === 'retry' || type === 'deferred' || type === 'later' || type === 'released' ? 'waiting' : type
    const isStillUndecided = isUndecided && type === 'released'
    Object.assign(task, { changedAt: this.now, run: undefined, isToBeCancelled: false, isUndecided: isStillUndecided })
  }

  /** What could be claimed, in order. */
  #claimable(request: ClaimRequest): ModelTask[] {
    return this.#allowed(request)
      .filter(task => this.#opensAt(task) <= this.now)
      .sort((a, b) => b.priority - a.priority || a.submittedAt - b.submittedAt || (a.id < b.id ? -1 : 1))
  }

  /** When what cannot be claimed now, for no other reason than time, can be. */
  #nextOpening(request: ClaimRequest): number {
    const times = this.#allowed(request).map(task => this.#opensAt(task))
    return Math.min(Infinity, ...times.filter(at => at > this.now))
  }

  /** When time lets a task start: its own, the hold of its lane, and its rate, which lets a second's worth start at once. */
  #opensAt(task: ModelTask): number {
    const { heldUntil, evenlyUntil, limits } = this.lane(task)
    const { perSecond } = limits
    const savedUpMs = perSecond === Infinity ? Infinity : ((Math.max(1, perSecond) - 1) * 1000) / perSecond
    return Math.max(task.dueAt, heldUntil, Math.ceil(evenlyUntil - savedUpMs))
  }

  #allowed({ rooms }: ClaimRequest): ModelTask[] {
    const isInRoom = ({ kind, category }: Lane) =>
      rooms.some(({ kinds, categories }) => kinds.includes(kind) && (categories?.includes(category) ?? true))
    return [...this.tasks.values()].filter(
      task =>
        task.status === 'waiting' &&
        isInRoom(task) &&
        !this.isPaused(task) &&
        this.#runningIn(task) < Math.min(this.lane(task).allowance, this.lane(task).limits.concurrency),
    )
  }

  #hasAlone({ kind, category, key }: Lane): boolean {
    const isAlone = ({ status, losses, dueAt }: ModelTask) => status === 'waiting' && losses > 0 && dueAt <= this.now
    return [...this.tasks.values()].some(task => isAlone(task) && isWithin({ kind, category, key }, task))
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

function idsOf(tasks: readonly { readonly id: string }[]): string[] {
  return tasks.map(({ id }) => id)
}

/** Whether a lane agrees with every field that is given. */
function isWithin(lanes: Partial<Lane>, { kind, category, key }: Lane): boolean {
  return (lanes.kind ?? kind) === kind && (lanes.category ?? category) === category && (lanes.key ?? key) === key
}
