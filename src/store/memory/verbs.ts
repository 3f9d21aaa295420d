import type { GateChange } from '../contract/budget-store.js'
import type {
  Beat,
  Claim,
  ClaimedTask,
  ClaimRequest,
  Heartbeat,
  Outcome,
  Settled,
  Settlement,
} from '../contract/claim.js'
import { SETTLED, STALE } from '../contract/claim.js'
import type { StepRecording } from '../contract/step.js'
import type { Retention } from '../contract/store.js'
import type { Enqueued, NewTask } from '../contract/task.js'
import { runNow } from '../port/steps.js'
import { afterSettlement } from '../rules/after-settlement.js'
import { withGates } from '../rules/budgets/gate-answers.js'
import { tasksIfDead } from '../rules/if-dead.js'
import { markStopped } from '../rules/runs/mark-stopped.js'
import type { StoreVerbs } from '../verbs/base-store.js'
import { judgeGates } from '../verbs/budgets.js'
import { prunable } from './prune.js'
import { recordStep } from './steps.js'
import { type MemoryTask, standingOf } from './task.js'
import type { MemoryTasks } from './tasks.js'

/** The hot verbs of a memory store. Each runs in one go. */
export class MemoryVerbs implements StoreVerbs {
  readonly #tasks: MemoryTasks

  constructor(tasks: MemoryTasks) {
    this.#tasks = tasks
  }

  async now(): Promise<number> {
    return this.#tasks.now()
  }

  async enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    const now = this.#tasks.now()
    const enqueued = tasks.map(task => this.#tasks.add(task, now))
    if (enqueued.some(({ isNew }) => isNew)) this.#tasks.ring()
    return enqueued
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    const { worker, leaseMs, rooms } = request
    const { budgets, queue, workers } = this.#tasks
    const now = this.#tasks.now()
    workers.renew(worker, leaseMs)
    const tasks: ClaimedTask[] = []
    const gates = budgets.openGates(now)
    budgets.letRetriesThrough(now)
    queue.claim(request, now, gates, task => {
      const token = this.#tasks.start(task, worker, now)
      const hasSteps = task.steps.size > 0
      const isFirst = task.ledger.length === 0 && !hasSteps
      tasks.push({ ...task.record, token, isFirst, isUndecided: task.isUndecided, hasSteps })
    })
    budgets.noteStarts(gates, now)
    const isAloneWaiting = queue.isAloneWaiting(rooms, now, gates)
    const nextAt = Math.min(queue.nextAt(rooms, now), budgets.nextLook(gates, now), budgets.nextRetryAt(now))
    return { tasks, now, nextAt: nextAt === Infinity ? undefined : nextAt, isAloneWaiting }
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    const now = this.#tasks.now()
    const { runs } = this.#tasks
    runs.takeStopped()
    const answers = settlements.map(({ id, token, outcome, attempt, used }): Settled => {
      const task = this.#tasks.task(id)
      if (task?.lease?.token !== token) return repeatedAnswer(task, token, outcome)
      const { worker } = task.lease
      if (used !== undefined) this.#tasks.spent(task, used, now)
      const after = afterSettlement(standingOf(task), outcome, attempt, now)
      this.#tasks.end(task, after, now)
      return after.advance === undefined ? SETTLED : this.#tasks.goOn(task, after.advance, { worker, token }, now)
    })
    for (const task of tasksIfDead(settlements, answers)) if (this.#tasks.add(task, now).isNew) this.#tasks.ring()
    const stopped = markStopped(answers, runs.takeStopped(), n => this.#tasks.task(settlements[n]?.id ?? '')?.lane)
    return withGates(stopped, this.#judge(now))
  }

  async recordStep(step: StepRecording): Promise<boolean> {
    return recordStep(this.#tasks.task(step.id), step)
  }

  /** Judges the gates, if an end has been counted that they may have to change for. */
  #judge(now: number): readonly GateChange[] {
    const { budgets, tx } = this.#tasks
    const changes = budgets.takeToJudge() ? runNow(judgeGates(tx, now)) : []
    if (changes.length > 0) this.#tasks.ring()
    return changes
  }

  async heartbeat(beat: Beat): Promise<Heartbeat> {
    const { worker, leaseMs } = beat
    this.#tasks.workers.renew(worker, leaseMs)
    this.#tasks.workers.report(worker, beat)
    const rescued = this.#tasks.rescue()
    return { cancelled: await this.cancelled(worker), rescued }
  }

  async cancelled(worker: string): Promise<string[]> {
    return this.#tasks.workers
      .tasksOf(worker)
      .flatMap(({ isToBeCancelled, lease }) => (isToBeCancelled && lease ? [lease.token] : []))
  }

  async leave(worker: string): Promise<void> {
    const now = this.#tasks.now()
    for (const task of this.#tasks.workers.tasksOf(worker))
      this.#tasks.end(task, afterSettlement(standingOf(task), { type: 'released' }, undefined, now), now)
    this.#tasks.workers.remove(worker)
  }

  async prune(keep: Retention, limit: number): Promise<number> {
    const { tasks, lanes, runs, groups, costs, keys, unique, audit } = this.#tasks
    const now = this.#tasks.now()
    let left = limit
    for (const { record } of prunable(this.#tasks, keep, now)) {
      if (left === 0) break
      this.#tasks.forget(record.id)
      left--
    }
    unique.prune(now)
    lanes.forgetIdle(tasks.values(), now)
    left -= runs.prune(keep, left)
    if (keep.deadMs !== undefined) groups.prune(now - keep.deadMs)
    if (keep.auditMs !== undefined) costs.prune(now - keep.auditMs)
    if (keep.keysMs !== undefined) left -= keys.prune(keep.keysMs, left)
    if (keep.auditMs !== undefined) left -= audit.prune(now - keep.auditMs, left)
    return limit - left
  }
}

/** The answer to a settlement whose token does not hold: the same as before, if it repeats the last advance. */
function repeatedAnswer(task: MemoryTask | undefined, token: string, outcome: Outcome): Settled {
  const last = task?.advance
  const isRepeated = outcome.type === 'advanced' && last?.token === token && last.to === outcome.to
  return isRepeated ? last.answer : STALE
}
