import assert from 'node:assert/strict'
import type { Claim, ClaimRequest, Outcome, Settled, Settlement, TaskRecord, TaskStatus } from '../../store/index.js'

/** A task as the model knows it. */
export interface ModelTask {
  readonly id: string
  readonly kind: string
  readonly key: string
  readonly priority: number
  readonly submittedAt: number
  status: TaskStatus
  dueAt: number
  attempts: number
  deferrals: number
  losses: number
  isUndecided: boolean
  isToBeCancelled: boolean
  run: { readonly worker: string; readonly token: string; readonly startedAt: number } | undefined
  readonly ledger: string[]
}

interface ModelLane {
  heldUntil: number
  allowance: number
  concurrency: number
}

type NewModelTask = Pick<ModelTask, 'id' | 'kind' | 'key' | 'priority' | 'submittedAt' | 'dueAt'>

/**
 * A store as simple as can be: a list of tasks, and every question answered by looking through it. It does not foresee
 * whose turn it is; a claim is checked against what was possible, and then believed.
 */
export class StoreModel {
  now: number
  readonly tasks = new Map<string, ModelTask>()
  readonly pausedKinds = new Set<string>()
  readonly #lanes = new Map<string, ModelLane>()
  readonly #leases = new Map<string, number>()

  constructor(now: number) {
    this.now = now
  }

  lane({ kind, key }: { readonly kind: string; readonly key: string }): ModelLane {
    const name = JSON.stringify([kind, key])
    const lane = this.#lanes.get(name) ?? { heldUntil: -Infinity, allowance: Infinity, concurrency: Infinity }
    this.#lanes.set(name, lane)
    return lane
  }

  add(task: NewModelTask): boolean {
    if (this.tasks.has(task.id)) return false
    const fresh = { attempts: 0, deferrals: 0, losses: 0, isUndecided: false, isToBeCancelled: false }
    this.tasks.set(task.id, { ...task, ...fresh, status: 'waiting', run: undefined, ledger: [] })
    return true
  }

  /** Checks that a claim gave what it could give, in order, and takes it over. */
  claim(request: ClaimRequest, { tasks, now, nextAt, isAloneWaiting }: Claim): void {
    assert.equal(now, this.now)
    this.#leases.set(request.worker, now + request.leaseMs)
    const alone = () => this.#claimable(request).find(({ losses }) => losses > 0)
    const others = () => this.#claimable(request).filter(({ losses }) => losses === 0)

    const first = request.isIdle && request.limit > 0 ? alone() : undefined
    if (first !== undefined) assert.deepEqual(idsOf(tasks), [first.id], 'what must run alone comes first, and alone')
    for (const { id, key, kind, token, isUndecided } of tasks) {
      const isSameTurn = (task: ModelTask) => (key === '' ? task.key === '' : task.key === key && task.kind === kind)
      const task = first ?? others().find(isSameTurn)
      assert.ok(task !== undefined, `${id} could not be claimed`)
      assert.equal(id, task.id, 'the order within its turn')
      assert.equal(isUndecided, task.isUndecided, `whether ${id} is undecided`)
      Object.assign(task, { status: 'running', run: { worker: request.worker, token, startedAt: now } })
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
    if (task?.run?.token !== token) return 'stale'
    this.#end(task, outcome, attempt !== undefined)
    return 'settled'
  }

  heartbeat(worker: string, leaseMs: number): { cancelled: string[]; rescued: number } {
    this.#leases.set(worker, this.now + leaseMs)
    let rescued = 0
    for (const task of this.#running(({ worker }) => (this.#leases.get(worker) ?? Infinity) <= this.now)) {
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

  leave(worker: string): void {
    for (const task of this.#running(run => run.worker === worker)) this.#end(task, { type: 'released' }, false)
  }

  isIdle(worker: string): boolean {
    return this.#running(run => run.worker === worker).length === 0
  }

  cancel(id: string): boolean {
    const task = this.tasks.get(id)
    if (task?.status === 'running') task.isToBeCancelled = true
    else if (task?.status === 'waiting') task.status = 'cancelled'
    else return false
    return true
  }

  redrive(id: string): boolean {
    const task = this.tasks.get(id)
    if (task?.status !== 'dead') return false
    Object.assign(task, { status: 'waiting', dueAt: this.now, attempts: 0, deferrals: 0 })
    task.ledger.push('redriven')
    return true
  }

  /** What the store should say of a task. */
  expected({ status, dueAt, attempts, deferrals, losses }: ModelTask): Partial<TaskRecord> {
    return { status, attempts, deferrals, losses, nextAttemptAt: status === 'waiting' ? dueAt : undefined }
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
    if (type === 'deferred') {
      lane.heldUntil = Math.max(lane.heldUntil, this.now + outcome.delayMs)
      lane.allowance = 1
    } else if (type !== 'released' && type !== 'cancelled' && (run?.startedAt ?? 0) >= lane.heldUntil) lane.allowance++

    if (type === 'retry' || type === 'deferred' || type === 'later') task.dueAt = this.now + outcome.delayMs
    if (type === 'released') task.dueAt = this.now
    task.status = type === 'retry' || type === 'deferred' || type === 'later' || type === 'released' ? 'waiting' : type
    Object.assign(task, { run: undefined, isToBeCancelled: false, isUndecided: isUndecided && type === 'released' })
  }

  /** What could be claimed, in order. */
  #claimable(request: ClaimRequest): ModelTask[] {
    return this.#allowed(request)
      .filter(task => task.dueAt <= this.now && this.lane(task).heldUntil <= this.now)
      .sort((a, b) => b.priority - a.priority || a.submittedAt - b.submittedAt || (a.id < b.id ? -1 : 1))
  }

  /** When what cannot be claimed now, for no other reason than time, can be. */
  #nextOpening(request: ClaimRequest): number {
    const times = this.#allowed(request).map(task => Math.max(task.dueAt, this.lane(task).heldUntil))
    return Math.min(Infinity, ...times.filter(at => at > this.now))
  }

  #allowed({ kinds }: ClaimRequest): ModelTask[] {
    return [...this.tasks.values()].filter(
      task =>
        task.status === 'waiting' &&
        kinds.includes(task.kind) &&
        !this.pausedKinds.has(task.kind) &&
        this.#runningIn(task) < Math.min(this.lane(task).allowance, this.lane(task).concurrency),
    )
  }

  #runningIn({ kind, key }: ModelTask): number {
    return [...this.tasks.values()].filter(task => task.run && task.kind === kind && task.key === key).length
  }

  #running(isMeant: (run: { readonly worker: string }) => boolean): ModelTask[] {
    return [...this.tasks.values()].filter(({ run }) => run !== undefined && isMeant(run))
  }
}

function idsOf(tasks: readonly { readonly id: string }[]): string[] {
  return tasks.map(({ id }) => id)
}
