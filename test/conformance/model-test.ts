import assert from 'node:assert/strict'
import fc from 'fast-check'
import type {
  ClaimedTask,
  GateChange,
  NewOperation,
  Settled,
  Settlement,
  StoreContract,
} from '../../src/store/internal.js'
import { assertFields, assertSame, groupOf, LEASE_MS, lostGroupOf, type StoreUnderTest, TIMED_OUT } from './harness.js'
import { allTasks, checkInvariants } from './invariants.js'
import { payloadOf, StoreModel } from './model.js'
import { type NewTaskChoice, type Operation, operations, type SettlementChoice } from './operations.js'

/** Options of the model test. */
export interface StoreModelTestOptions {
  /** Makes a run repeatable. */
  readonly seed: number
  /** How many sequences of operations to try. */
  readonly runs: number
  /** Ends the test after this time. Runs that are left are not made. */
  readonly withinMs?: number
  /** Repeats one run of a seed. The error of a failed run names both. */
  readonly path?: string
}

/**
 * Drives a store and a simple model of it through the same random operations, deaths and steps of the clock, and
 * rejects where they differ, with the fewest operations that show it.
 */
export async function storeModelTest(
  open: () => Promise<StoreUnderTest> | StoreUnderTest,
  { seed, runs, withinMs, path }: StoreModelTestOptions,
): Promise<void> {
  const does = fc.asyncProperty(operations(), async steps => {
    const run = new ModelRun(await open())
    try {
      for (const step of steps) await run.do(step)
      await run.end()
    } catch (error) {
      throw new Error(`The store differs from its model at the last of:\n  ${run.log.join('\n  ')}`, { cause: error })
    } finally {
      await run.close()
    }
  })
  await fc.assert(does, { seed, path, numRuns: runs, interruptAfterTimeLimit: withinMs })
}

/** One run: a store, its model, and the steps taken so far. */
class ModelRun {
  readonly log: string[] = []
  readonly #underTest: StoreUnderTest
  #store: StoreContract
  #model: StoreModel | undefined
  /** Every task that was ever claimed. Most can be settled once, and are stale afterwards. */
  readonly #claimed: ClaimedTask[] = []
  /** The operations that have moved something, newest first. */
  readonly #acts: string[] = []
  /** The gates that the last settlements are said to have opened. */
  #told: readonly GateChange[] = []

  constructor(underTest: StoreUnderTest) {
    this.#underTest = underTest
    this.#store = underTest.store
  }

  /** Does one step, and compares. */
  async do(step: Operation): Promise<void> {
    this.#model ??= new StoreModel(await this.#store.now())
    this.log.push(JSON.stringify(step))
    await this.#apply(step, this.#model)
    await this.#compare(this.#model)
  }

  /** Compares the ledgers, at the end of a run. */
  async end(): Promise<void> {
    for (const { id, ledger, lostNotes, steps } of this.#model?.tasks.values() ?? []) {
      const recorded = (await this.#store.steps(id)).map(({ name, isDone }) => [name, isDone])
      assert.deepEqual(recorded, [...steps], `the steps of ${id}`)
      const rows = await this.#store.ledger(id)
      const outcomes = rows.map(({ outcome }) => outcome)
      assert.deepEqual(outcomes, ledger, `the ledger of ${id}`)
      const lost = rows.filter(({ outcome }) => outcome === 'lost')
      assert.deepEqual(
        lost.map(({ notes }) => notes),
        lostNotes,
        `the notes of ${id}`,
      )
    }
    await checkInvariants(this.#store)
  }

  async close(): Promise<void> {
    await this.#store.close()
    await this.#underTest.close?.()
  }

  async #apply(step: Operation, model: StoreModel): Promise<void> {
    const store = this.#store
    switch (step.op) {
      case 'enqueue': {
        const tasks = step.tasks.map(task => newTask(task, model.now))
        const expected = tasks.map(task => model.uniques.enqueue(task))
        return assert.deepEqual(await store.enqueue(tasks), expected)
      }
      case 'claim': {
        const { worker, rooms, limit } = step
        const request = { worker, rooms, limit, isIdle: model.isIdle(worker), leaseMs: LEASE_MS }
        const claim = await store.claim(request)
        this.log.push(`  → ${claim.tasks.map(({ id }) => id)}, next ${claim.nextAt}`)
        model.letThrough(await this.#budgetedNow(model), true)
        model.claim(request, claim)
        this.#claimed.push(...claim.tasks)
        return
      }
      case 'settle': {
        const settlements = step.settlements.map(choice => this.#settlement(choice, model))
        const answers = await store.settle(settlements)
        this.#told = answers.flatMap(({ gates = [] }) => gates)
        this.log.push(`  → ${answers.map(({ result }) => result)}`)
        const isBudgeted = await this.#budgetedNow(model, settlements)
        for (const [index, settlement] of settlements.entries()) {
          const { gates: _gates, ...answer } = answers[index] ?? { result: 'stale' }
          this.#follow(settlement, answer, model, isBudgeted)
        }
        return assert.equal(answers.length, settlements.length)
      }
      case 'step': {
        const { pick, isAny, name, isDone } = step
        const task = this.#pick(pick, isAny, model)
        if (task === undefined) return
        const { id, token } = task
        const isHeld = await store.recordStep({
          id,
          token,
          name,
          isDone,
          result: isDone ? '1' : undefined,
          state: '{}',
        })
        return assert.equal(isHeld, model.recordStep(id, token, name, isDone), `whether ${id} was still held`)
      }
      case 'heartbeat':
        return model.isUnsure ? undefined : this.#heartbeat(step.worker, model)
      case 'die':
        await this.#passTime(LEASE_MS, model)
        return this.#heartbeat(step.survivor, model)
      case 'leave':
        model.leave(step.worker)
        return store.leave(step.worker)
      case 'cancel': {
        const ids = chosen(step.picks, [...model.tasks.keys()])
        const expected = ids.filter(id => model.cancel(id))
        model.batches.actedOn(ids)
        return assert.deepEqual(await store.cancel(ids, { who: 'ann' }), expected)
      }
      case 'expire': {
        const ids = chosen(step.picks, [...model.tasks.keys()])
        const tasks = ids.map(id => ({ id, changedAt: model.tasks.get(id)?.changedAt ?? 0 }))
        const expected = ids.filter(id => model.expire(id))
        model.batches.actedOn(ids)
        return assertSame(await store.lifetimes.expire(tasks), expected)
      }
      case 'redrive': {
        const ids = chosen(step.picks, model.idsByDeath())
        const refused = model.uniques.retake(ids, step.twin)
        const expected = ids.filter(id => !refused.has(id) && model.redrive(id))
        model.batches.redriven(expected)
        return assert.deepEqual(await store.redrive(ids, { who: 'ann' }, { twin: step.twin }), expected)
      }
      case 'discard': {
        const ids = chosen(step.picks, model.idsByDeath())
        const expected = ids.filter(id => model.discard(id))
        model.batches.actedOn(ids)
        return assert.deepEqual(await store.discard(ids, { who: 'ann', why: 'a duplicate' }), expected)
      }
      case 'complete':
      case 'fail':
      case 'delete': {
        const ids = chosen(step.picks, [...model.tasks.keys()])
        const expected = ids.filter(id => model[step.op](id))
        if (step.op !== 'delete') model.batches.actedOn(ids)
        return assert.deepEqual(await endByHand(store, step.op, ids), expected)
      }
      case 'edit': {
        for (const id of chosen(step.picks, [...model.tasks.keys()]))
          assert.equal(await store.edit(id, payloadOf(step), BY), model.edit(id, step.n), `whether ${id} was edited`)
        return
      }
      case 'act': {
        const { act, kind, patch, fromStep, forgetStep, twin } = step
        const forgotten = fromStep ?? forgetStep
        const { id, members, moved } = await this.#act({
          act,
          kind,
          settings: {
            ...(patch && { patch }),
            ...(fromStep && { fromStep }),
            ...(forgetStep && { forgetStep }),
            ...(twin && { twin }),
          },
        })
        assertSame(members, model.deadOf(kind))
        const refused = act === 'redrive' ? model.uniques.retake(members, twin ?? 'skip') : new Set()
        const expected = members.filter(one => !refused.has(one))
        if (moved.length > 0) this.#acts.unshift(id)
        for (const one of expected) model[act](one, id, patch)
        if (act === 'redrive') model.batches.redriven(expected)
        else model.batches.actedOn(expected)
        if (forgotten !== undefined) for (const one of moved) model.forget(one, forgotten, fromStep !== undefined)
        assertSame(moved, expected)
        return
      }
      case 'arrange': {
        const { act, kind, priority } = step
        const place = {
          promote: { dueAt: model.now },
          reschedule: { dueAt: model.now + step.dueInMs },
          prioritize: { priority },
        }
        const settings = { promote: {}, reschedule: { runAt: model.now + step.dueInMs }, prioritize: { priority } }
        const { id, moved } = await this.#act({ act, kind, settings: settings[act] })
        if (moved.length > 0) this.#acts.unshift(id)
        return assertSame(moved, model.arrange(act, kind, place[act], id))
      }
      case 'undo': {
        const [id] = chosen([step.pick], this.#acts.slice(0, 2))
        if (id === undefined) return
        const { undone } = await store.operations.undo(id, { limit: 10_000 }, BY)
        return assert.equal(undone, model.undo(id), 'how many were put back')
      }
      case 'regroup': {
        const from = `${step.kind}-${step.from}`
        const to = groupOf(`${step.kind}-${step.to}`, step.kind)
        const moves = model.regroup(from, to.id).map(task => ({ task, to }))
        const regrouping = { from, ...(step.isHeir && { heir: to }), moves }
        const expected = from === to.id ? 0 : moves.length
        return assert.equal(await store.groups.regroup(regrouping), expected, 'how many were moved')
      }
      case 'pause':
        model.pause(step.lanes, step.isPaused)
        return store.pause(step.lanes, { isPaused: step.isPaused })
      case 'limit':
        model.limit(step.lanes, step.limits)
        return store.limit(step.lanes, step.limits)
      case 'budget':
        model.setBudget(step.scope, step.budget)
        return store.budgets.set(step.scope, step.budget)
      case 'lift':
        return assert.equal(await store.budgets.lift(step.scope), model.setBudget(step.scope, undefined))
      case 'close':
        return assert.equal(await store.budgets.close(step.scope), model.budgets.close(step.scope))
      case 'fill': {
        const { batch, isEnd } = step
        const position = model.batches.positionOf(batch)
        const tasks = step.tasks.map(task => newTask(task, model.now))
        const expected = model.batches.fill(batch, tasks, isEnd)
        return assert.deepEqual(await store.batches.fill(batch, { position, tasks, isEnd }), expected)
      }
      case 'check':
        await store.batches.check(step.batch)
        return model.batches.check(step.batch)
      case 'schedule':
        return model.schedules.apply(step.step, store)
      case 'prune':
        return assert.equal(await store.prune(step.keep, 10_000), model.prune(step.keep), 'how many were forgotten')
      case 'advance':
        return this.#passTime(step.ms, model)
      case 'reopen':
        this.#store = (await this.#underTest.reopen?.()) ?? store
    }
  }

  /** Moves all members of an operation in one step, and stops it. */
  async #act({ act, kind, settings }: Pick<NewOperation, 'act' | 'settings'> & { readonly kind: string }): Promise<{
    readonly id: string
    /** In the order in which they are moved. */
    readonly members: readonly string[]
    readonly moved: readonly string[]
  }> {
    const { operations } = this.#store
    const set = { filter: { kind }, until: await this.#store.now() }
    const { id, progress } = await operations.create({ act, set, by: BY, settings: settings ?? {} })
    const { token = '' } = (await operations.take(id, 'driver', LEASE_MS)) ?? {}
    const move = (await operations.members(id, { limit: 10_000 })).items.map(member => member.id)
    const step = await operations.step(id, token, { leaseMs: LEASE_MS, move, status: 'stopped', progress })
    assert.equal(step?.operation.moved, step?.moved.length)
    return { id, members: move, moved: step?.moved ?? [] }
  }

  /** Tells which tasks wait under a retry budget, if any did before. */
  async #budgetedNow(model: StoreModel, settlements: readonly Settlement[] = []): Promise<(id: string) => boolean> {
    if (model.budgets.isEmpty || model.budgeted.length + settlements.length === 0) return () => true
    const tasks = await allTasks(this.#store)
    const ids = new Set(tasks.filter(({ isBudgeted }) => isBudgeted).map(({ id }) => id))
    return id => ids.has(id)
  }

  /** Compares one answer. An item that was kept can be settled again, under its new token. */
  #follow(
    settlement: Settlement,
    answer: Settled | undefined,
    model: StoreModel,
    isBudgeted: (id: string) => boolean,
  ): void {
    model.settle(settlement, answer, isBudgeted)
    const task = this.#claimed.find(({ token }) => token === settlement.token)
    if (answer?.result !== 'kept' || task === undefined) return
    this.#claimed.push({ ...task, attempts: 0, changedAt: answer.now, token: answer.token })
  }

  async #heartbeat(worker: string, model: StoreModel): Promise<void> {
    const notes = model.notesOf(worker)
    const expected = model.heartbeat(worker, LEASE_MS, notes)
    const { cancelled, rescued } = await this.#store.heartbeat({ worker, leaseMs: LEASE_MS, notes })
    assert.equal(rescued, expected.rescued, 'rescued')
    assertSame(cancelled, expected.cancelled)
  }

  async #passTime(ms: number, model: StoreModel): Promise<void> {
    await this.#underTest.advance(ms)
    model.now += ms
  }

  async #compare(model: StoreModel): Promise<void> {
    const tasks = await allTasks(this.#store)
    assert.equal(tasks.length, model.tasks.size)
    for (const task of tasks) {
      const known = model.tasks.get(task.id)
      assert.ok(known !== undefined, `${task.id} is not known`)
      assertFields(task, { ...model.expected(known), id: known.id })
    }
    await model.batches.compare(this.#store)
    await model.schedules.compare(this.#store)
    for (const lane of await this.#store.lanes())
      assert.equal(lane.isPaused, model.isPaused(lane), `whether ${JSON.stringify(lane)} is paused`)
    for (const { kind, category, ready } of (await this.#store.stats()).kinds)
      assert.equal(ready, model.readyIn({ kind, category }) ?? ready, `how many tasks of ${kind} ${category} are ready`)
    if (!model.budgets.isEmpty)
      model.budgets.follow(await this.#store.budgets.list(), this.#told, model.now, name => model.heldBy(name))
    this.#told = []
  }

  /** A task that runs, or any that ever was claimed. */
  #pick(pick: number, isAny: boolean, model: StoreModel): ClaimedTask | undefined {
    const running = this.#claimed.filter(({ id, token }) => model.tasks.get(id)?.run?.token === token)
    return chosen([pick], isAny || running.length === 0 ? this.#claimed : running)[0]
  }

  #settlement({ pick, isAny, hasAttempt, failure, verdict, outcome }: SettlementChoice, model: StoreModel): Settlement {
    const task = this.#pick(pick, isAny, model)
    if (task === undefined) return { id: 'unknown', token: 'none', outcome }
    const { id, kind, token, attempts, changedAt } = task
    // An advance always has a row, from which the invariants tell where the counters of a stage begin.
    const hasRow = outcome.type === 'advanced' || outcome.type === 'lost'
    const isUncounted = outcome.type === 'released' || !(hasRow || hasAttempt)
    if (isUncounted) return { id, token, outcome }
    const attempt = { attempt: attempts + 1, startedAt: changedAt, endedAt: model.now, worker: 'w1' }
    const isLost = outcome.type === 'lost'
    const group = isLost ? lostGroupOf(kind) : groupOf(`${kind}-${failure}`, kind)
    const judged = { ...TIMED_OUT, class: outcome.type === 'deferred' ? 'rate_limited' : verdict } as const
    const failed = FAILURES.has(outcome.type) && { verdict: judged, error: 'Error: x', group }
    return { id, token, outcome, attempt: { ...attempt, ...(isLost ? { group } : failed) } }
  }
}

const BY = { who: 'ann', why: 'a bulk act' }

/** Outcomes of attempts that failed, or may have. */
const FAILURES: ReadonlySet<Settlement['outcome']['type']> = new Set(['retry', 'dead', 'deferred', 'cancelled'])

/** Returns the items that the numbers pick from a list, each once. */
function chosen<T>(picks: readonly number[], from: readonly T[]): T[] {
  return from.length === 0 ? [] : [...new Set(picks.map(pick => from[pick % from.length] as T))]
}

function newTask<T extends Omit<NewTaskChoice, 'id' | 'unique' | 'n'> & Partial<NewTaskChoice>>(
  { submittedAgoMs, dueInMs, n, ...task }: T,
  now: number,
) {
  return { ...task, payload: payloadOf({ n }), submittedAt: now - submittedAgoMs, runAt: now + dueInMs }
}

function endByHand(
  store: StoreContract,
  act: 'complete' | 'fail' | 'delete',
  ids: readonly string[],
): Promise<string[]> {
  switch (act) {
    case 'complete':
      return store.complete(ids, '1', BY)
    case 'fail':
      return store.fail(
        ids.map(id => ({ id })),
        BY,
      )
    case 'delete':
      return store.delete(ids, BY)
  }
}
