import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { OptionError } from '../../src/policy/index.js'
import type { TaskFilter } from '../../src/store/index.js'
import type { NewOperation, OperationStep, StoreContract } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  assertSame,
  claim,
  claimOne,
  get,
  kill,
  type StoreBehaviours,
  settle,
  settleUncounted,
  start,
  TIMED_OUT,
} from './harness.js'
import { ANN, createRedrive, killAll, move, take } from './operation-harness.js'

const NO_ONE_YET = { passed: 0, failed: 0, unanswered: 0, succeeded: 0, skipped: 0, dead: 0, cancelled: 0 }

async function memberIds(store: StoreContract, id: string): Promise<string[]> {
  return (await store.operations.members(id, { limit: 100 })).items.map(member => member.id)
}

export const BULK_ACTS: StoreBehaviours = {
  async 'an operation is on record from its creation, and in the audit log'(store, advance) {
    const settings = { canary: 5, stopAbove: 0.2, perSecond: 100 }
    const created = await createRedrive(store, { set: { filter: { kind: 'k', errorCode: 'E' }, until: 7 }, settings })
    await advance(1)
    const found = await store.operations.get(created.id)
    assert.deepEqual(found, created)
    assertFields(found, {
      act: 'redrive',
      set: { filter: { kind: 'k', errorCode: 'E' }, until: 7 },
      by: ANN,
      settings,
      status: 'canary',
      moved: 0,
      undone: 0,
      tally: NO_ONE_YET,
      driver: undefined,
      endedAt: undefined,
    })
    const [record] = (await store.audit.tail(1)).items
    assertFields(JSON.parse(record ?? '{}'), { event_type: 'operation_created', operation: created.id, who: 'ann' })
    assert.equal(await store.operations.get('op-none'), undefined)
    await assert.rejects(store.operations.members('op-none', { limit: 1 }), { code: 'operation_not_found' })
  },

  async 'an operation that waits for a fix is planned, and its set is frozen when it starts'(store, advance) {
    await killAll(store, advance, [{ id: 'early' }])
    const fixedIn = { release: '1.8.0', before: ['1.7.0'] }
    const set = { filter: { kind: 'k' }, until: await store.now() }
    const operation = await createRedrive(store, { set, settings: { canary: 2, fixedIn } })
    assertFields(operation, { status: 'planned', settings: { canary: 2, fixedIn } })
    await advance(5)
    await killAll(store, advance, [{ id: 'late' }])
    assert.deepEqual(await memberIds(store, operation.id), ['early'])
    const token = await take(store, operation.id)
    const { progress } = operation
    const step = (status: OperationStep['status']) =>
      store.operations.step(operation.id, token, { leaseMs: 1000, status, progress })
    assertFields((await step('planned'))?.operation, { set })
    const started = await step('canary')
    assertFields(started?.operation, { status: 'canary', set: { filter: { kind: 'k' }, until: await store.now() } })
    assert.deepEqual(await memberIds(store, operation.id), ['early', 'late'])
    await advance(5)
    await killAll(store, advance, [{ id: 'too-late' }])
    assert.deepEqual(await memberIds(store, operation.id), ['early', 'late'])
    // Once members were moved, the set stays as it is.
    await move(store, { ...operation, status: 'canary' }, token, ['early'])
    await step('planned')
    assertFields((await step('canary'))?.operation, { set: started?.operation.set })
  },

  async 'operations are listed newest first, page by page'(store, advance) {
    const ids: string[] = []
    for (let n = 0; n < 3; n++) {
      ids.unshift((await createRedrive(store)).id)
      await advance(1)
    }
    const first = await store.operations.list({}, { limit: 2 })
    const second = await store.operations.list({}, { limit: 2, after: first.next ?? '' })
    assert.deepEqual(
      [...first.items, ...second.items].map(({ id }) => id),
      ids,
    )
    assert.equal(second.next, undefined)
    await store.operations.change(ids[1] ?? '', 'stop', ANN)
    const open = await store.operations.list({ isOpen: true }, { limit: 10 })
    assert.deepEqual(
      open.items.map(({ id }) => id),
      [ids[0], ids[2]],
    )
  },

  async 'the members of a filter are the dead letters of its time, oldest first, page by page'(store, advance) {
    await killAll(store, advance, [
      { id: 'c', key: 'x' },
      { id: 'a' },
      { id: 'b', code: 'E_OTHER' },
      { id: 'd', kind: 'l' },
    ])
    const { id } = await createRedrive(store)
    await advance(1)
    await killAll(store, advance, [{ id: 'late' }])
    const first = await store.operations.members(id, { limit: 3 })
    const second = await store.operations.members(id, { limit: 3, after: first.next ?? '' })
    assert.deepEqual(
      [...first.items, ...second.items].map(member => member.id),
      ['c', 'a', 'b', 'd'],
    )
    assertFields(first.items[0], { kind: 'k', category: '', key: 'x', isOrdered: false, isPaused: false })
    const ofLane = await store.operations.members(id, { limit: 9, lane: { kind: 'k', category: '', key: 'x' } })
    assert.deepEqual(
      ofLane.items.map(member => member.id),
      ['c'],
    )
    const until = await store.now()
    const byCode = await createRedrive(store, { set: { filter: { errorCode: 'E_OTHER' }, until } })
    assert.deepEqual(await memberIds(store, byCode.id), ['b'])
    const byKind = await createRedrive(store, { set: { filter: { kind: 'l' }, until } })
    assert.deepEqual(await memberIds(store, byKind.id), ['d'])
  },

  async 'no member is missed that died with others, whatever the characters of the ids'(store) {
    // UTF-16 has the rocket before U+FFEE, code points have it behind.
    for (const id of ['a', '\uffee', '🚀', 'é', '🚀b', '\uffeeb']) await kill(store, await start(store, { id }))
    const { id } = await createRedrive(store)
    const found: string[] = []
    let after: string | undefined
    do {
      const page = await store.operations.members(id, { limit: 1, ...(after !== undefined && { after }) })
      found.push(...page.items.map(member => member.id))
      after = page.next
    } while (after !== undefined)
    assert.deepEqual(found, ['a', 'é', '\uffee', '\uffeeb', '🚀', '🚀b'])
  },

  async 'members say whether their lane is ordered or paused'(store, advance) {
    await killAll(store, advance, [{ id: 'a' }, { id: 'b', kind: 'l' }])
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await store.pause({ kind: 'l' }, { isPaused: true })
    const { id } = await createRedrive(store)
    const { items } = await store.operations.members(id, { limit: 9 })
    assert.deepEqual(
      items.map(({ isOrdered, isPaused }) => [isOrdered, isPaused]),
      [
        [true, false],
        [false, true],
      ],
    )
  },

  async 'explicit ids keep their order, and only those that are dead are members'(store, advance) {
    await killAll(store, advance, [{ id: 'a' }, { id: 'b' }, { id: 'c' }])
    await add(store, { id: 'alive' })
    const { id } = await createRedrive(store, { set: { ids: ['c', 'alive', 'none', 'a', 'c'] } })
    const first = await store.operations.members(id, { limit: 2 })
    const second = await store.operations.members(id, { limit: 2, after: first.next ?? '' })
    assert.deepEqual(
      first.items.map(member => member.id),
      ['c'],
    )
    assert.deepEqual(
      second.items.map(member => member.id),
      ['a'],
    )
    assert.equal(second.next, undefined)
  },

  async 'a survey counts the members of a set by kind, category, code, pause and age'(store, advance) {
    await killAll(store, advance, [{ id: 'a' }, { id: 'b' }, { id: 'c', code: 'E_OTHER' }])
    await advance(3_600_000)
    await killAll(store, advance, [{ id: 'd' }, { id: 'e', kind: 'l', category: 'eu' }])
    await store.pause({ kind: 'l' }, { isPaused: true })
    const survey = async (filter: TaskFilter) => {
      const rows = await store.operations.survey('redrive', { filter, until: await store.now() })
      return rows.map(row => `${row.kind}/${row.category} ${row.errorCode} ${row.isPaused} ${row.age} ${row.count}`)
    }
    const all = ['k/ E_BAD false day 2', 'k/ E_OTHER false day 1', 'k/ E_BAD false hour 1', 'l/eu E_BAD true hour 1']
    assertSame(await survey({}), all)
    assertSame(await survey({ kind: 'l', errorCode: 'E_BAD' }), all.slice(3))
    // Among many others they may be looked for in another way.
    await store.enqueue(Array.from({ length: 60 }, () => ({ kind: 'other', payload: '{}' })))
    assertSame(await survey({}), all)
    const ofGroup = all.filter(row => row.startsWith('k/ E_BAD'))
    assertSame(await survey({ kind: 'k', errorCode: 'E_BAD' }), ofGroup)
    assertSame(await survey({ group: 'E_BAD:k' }), ofGroup)
    const named = await store.operations.survey('discard', { ids: ['a', 'e', 'none'] })
    assert.equal(
      named.reduce((sum, { count }) => sum + count, 0),
      2,
    )
  },

  async 'one driver has the lease at a time, and another takes over when it has expired'(store, advance) {
    const { id } = await createRedrive(store)
    const first = await store.operations.take(id, 'one', 1000)
    assert.equal(first?.operation.id, id)
    assert.deepEqual(first?.operation.driver, { name: 'one', until: (await store.now()) + 1000 })
    assert.equal(await store.operations.take(id, 'two', 1000), undefined)
    await advance(1000)
    const second = await store.operations.take(id, 'two', 1000)
    assert.equal(second?.operation.driver?.name, 'two')
    const step = { leaseMs: 1000, status: 'running', progress: first?.operation.progress } as OperationStep
    assert.equal(await store.operations.step(id, first?.token ?? '', step), undefined)
    assert.ok(await store.operations.step(id, second?.token ?? '', step))
    await store.operations.release(id, second?.token ?? '')
    assert.ok(await store.operations.take(id, 'three', 1000))
  },

  async 'a step moves members that are still in the set, each once, and marks them'(store, advance) {
    await killAll(store, advance, [{ id: 'a' }, { id: 'b' }, { id: 'c' }])
    const operation = await createRedrive(store)
    await advance(1)
    const token = await take(store, operation.id)
    await store.redrive(['c'], { who: 'bob' })
    const { moved, operation: after } = await move(store, operation, token, ['a', 'b', 'c', 'none'])
    assert.deepEqual(moved, ['a', 'b'])
    assert.equal(after.moved, 2)
    assert.deepEqual(after.progress.refused, { already_back: 2 })
    assertFields(await get(store, 'a'), { status: 'waiting', operation: operation.id, attempts: 0 })
    assertFields(await get(store, 'c'), { status: 'waiting', operation: undefined })
    assert.deepEqual(await memberIds(store, operation.id), [])
    // A member that is dead again has died too late for the set.
    await kill(store, (await claim(store)).tasks.find(task => task.id === 'a') ?? assert.fail())
    assert.deepEqual(await memberIds(store, operation.id), [])
    assert.deepEqual((await move(store, operation, token, ['a'])).moved, [])
  },

  async 'a member that dies again within the time of the set is not moved again'(store, advance) {
    await killAll(store, advance, [{ id: 'a' }])
    const operation = await createRedrive(store, { set: { filter: {}, until: (await store.now()) + 1000 } })
    const token = await take(store, operation.id)
    assert.deepEqual((await move(store, operation, token, ['a'])).moved, ['a'])
    await kill(store, await claimOne(store))
    assert.deepEqual((await move(store, operation, token, ['a'])).moved, [])
    // Another operation may.
    const other = await createRedrive(store)
    assert.deepEqual((await move(store, other, await take(store, other.id), ['a'])).moved, ['a'])
  },

  async 'the redriven row keeps what the redrive clears'(store, advance) {
    const task = await start(store, { id: 'a' })
    await settle(store, task, { type: 'retry', delayMs: 20, isBackoff: true }, { verdict: TIMED_OUT, error: 'slow' })
    await advance(20)
    await settle(store, await claimOne(store), { type: 'deferred', delayMs: 0 })
    await kill(store, await claimOne(store))
    const { attempts, deferrals, startedAt, changedAt, previousDelayMs, errorClass, errorCode, errorMessage, reason } =
      await get(store, 'a')
    await store.redrive(['a'], ANN)
    const before = (await store.ledger('a')).at(-1)?.before
    const kept = {
      attempts,
      deferrals,
      startedAt,
      changedAt,
      previousDelayMs,
      errorClass,
      errorCode,
      errorMessage,
      reason,
    }
    assert.deepEqual({ ...kept, ...before }, kept)
    assert.equal(before?.attempts, 2)
    assert.equal(before?.previousDelayMs, 20)
  },

  async 'the first counted attempt of a member is its answer, and its end is counted once'(store, advance) {
    const ids = ['ok', 'skipped', 'again', 'dead', 'deferred', 'cancelled']
    await killAll(
      store,
      advance,
      ids.map(id => ({ id })),
    )
    const operation = await createRedrive(store)
    await advance(1)
    const token = await take(store, operation.id)
    await move(store, operation, token, ids)
    const tally = async () => (await store.operations.get(operation.id))?.tally
    await store.cancel(['cancelled'])
    assert.deepEqual(await tally(), { ...NO_ONE_YET, unanswered: 1, cancelled: 1 })
    const tasks = new Map((await claim(store)).tasks.map(task => [task.id, task]))
    const of = (id: string) => tasks.get(id) ?? assert.fail(`${id} should be claimed`)
    await settle(store, of('ok'), { type: 'succeeded' })
    await settle(store, of('skipped'), { type: 'skipped', reason: 'gone' })
    await settle(store, of('again'), { type: 'retry', delayMs: 0, isBackoff: true }, { verdict: TIMED_OUT })
    await kill(store, of('dead'))
    await settle(store, of('deferred'), { type: 'deferred', delayMs: 0 })
    const answered = { passed: 2, failed: 2, unanswered: 1, succeeded: 1, skipped: 1, dead: 1, cancelled: 1 }
    assert.deepEqual(await tally(), answered)
    for (const task of (await claim(store)).tasks) await settle(store, task, { type: 'succeeded' })
    for (const task of (await claim(store)).tasks) await settle(store, task, { type: 'succeeded' })
    assert.deepEqual(await tally(), { ...answered, passed: 3, succeeded: 3 })
    assert.deepEqual(await store.operations.deaths(operation.id), [
      { kind: 'k', errorCode: 'E_BAD', group: 'E_BAD:k', count: 1 },
    ])
  },

  async 'a release and the decision on a loss are no answers'(store, advance) {
    await killAll(store, advance, [{ id: 'a' }])
    const operation = await createRedrive(store)
    await advance(1)
    await move(store, operation, await take(store, operation.id), ['a'])
    await settleUncounted(store, await claimOne(store), { type: 'released' })
    await claim(store, { worker: 'killed' })
    await advance(30_000)
    await store.heartbeat({ worker: 'w1', leaseMs: 30_000 })
    await settleUncounted(store, await claimOne(store), { type: 'retry', delayMs: 0, isBackoff: false })
    assert.deepEqual((await store.operations.get(operation.id))?.tally, NO_ONE_YET)
  },

  async 'a stopped operation takes no more steps, and goes on where it was'(store, advance) {
    await killAll(store, advance, [{ id: 'a' }, { id: 'b' }])
    const operation = await createRedrive(store)
    const token = await take(store, operation.id)
    await move(store, operation, token, ['a'])
    assertFields(await store.operations.change(operation.id, 'stop', { who: 'bob', why: 'too fast' }), {
      status: 'stopped',
      reason: 'Stopped by bob: too fast',
      driver: undefined,
    })
    const step: OperationStep = { leaseMs: 1, status: 'running', progress: operation.progress, move: ['b'] }
    assert.equal(await store.operations.step(operation.id, token, step), undefined)
    assertFields(await get(store, 'b'), { status: 'dead' })
    assert.equal(await store.operations.take(operation.id, 'driver', 1000), undefined)
    assertFields(await store.operations.change(operation.id, 'continue', ANN), { status: 'running', reason: undefined })
    await move(store, operation, await take(store, operation.id), ['b'])
    assertFields(await get(store, 'b'), { status: 'waiting' })
    const types = (await store.audit.tail(2)).items.map(record => JSON.parse(record).event_type)
    assert.deepEqual(types, ['operation_stopped', 'operation_continued'])
  },

  async 'an undo restores exactly what the redrive cleared, for members that have not run'(store, advance) {
    await killAll(
      store,
      advance,
      ['ran', 'released', 'running', 'waits'].map(id => ({ id })),
    )
    const before = await get(store, 'waits')
    const operation = await createRedrive(store)
    await advance(5)
    await move(store, operation, await take(store, operation.id), ['ran', 'released', 'running', 'waits'])
    await advance(5)
    const { tasks } = await claim(store, { limit: 3 })
    assertSame(
      tasks.map(({ id }) => id),
      ['ran', 'released', 'running'],
    )
    const of = (id: string) => tasks.find(task => task.id === id) ?? assert.fail()
    await settle(store, of('ran'), { type: 'retry', delayMs: 0, isBackoff: true }, { verdict: TIMED_OUT })
    await settleUncounted(store, of('released'), { type: 'released' })
    await assert.rejects(store.operations.undo(operation.id, { limit: 9 }, ANN), OptionError)
    await store.operations.change(operation.id, 'stop', ANN)
    const pages = [await store.operations.undo(operation.id, { limit: 2 }, ANN)]
    pages.push(await store.operations.undo(operation.id, { limit: 2, after: pages[0]?.next ?? '' }, ANN))
    assert.equal((pages[0]?.undone ?? 0) + (pages[1]?.undone ?? 0), 1)
    assert.equal(pages[1]?.next, undefined)
    assert.deepEqual(await get(store, 'waits'), before)
    assertFields((await store.ledger('waits')).at(-1), { outcome: 'undone', worker: 'ann', attempt: 0 })
    assert.equal((await store.operations.get(operation.id))?.undone, 1)
    // A page that put nothing back leaves no record.
    const records = (await store.audit.tail(2)).items.map(record => JSON.parse(record))
    assert.deepEqual(
      records.map(({ event_type }) => event_type),
      ['operation_stopped', 'operation_undone'],
    )
    assertFields(records[1], { operation: operation.id, who: 'ann', why: ANN.why, moved: 4, undone: 1 })
    const dead = await store.list({ status: 'dead' }, { limit: 9 })
    assert.deepEqual(
      dead.items.map(({ id }) => id),
      ['waits'],
    )
    // It is a dead letter like any other: it can be redriven again, and runs once.
    assert.deepEqual(await store.redrive(['waits'], ANN), ['waits'])
    const again = (await claim(store)).tasks
    assertSame(
      again.map(({ id }) => id),
      ['ran', 'released', 'waits'],
    )
  },

  async 'a discard by an operation can be undone while the letter is kept'(store, advance) {
    await killAll(store, advance, [{ id: 'a' }, { id: 'b' }])
    const before = await get(store, 'a')
    const operation = await createRedrive(store, { act: 'discard' })
    await advance(1)
    const { moved } = await move(store, operation, await take(store, operation.id), ['a', 'b'])
    assert.deepEqual(moved, ['a', 'b'])
    assertFields(await get(store, 'a'), { status: 'cancelled', reason: ANN.why })
    await store.operations.change(operation.id, 'stop', ANN)
    await store.prune({ deadMs: 0 }, 100)
    assert.deepEqual(await store.operations.undo(operation.id, { limit: 9 }, ANN), { undone: 2 })
    assert.deepEqual(await get(store, 'a'), before)
    assert.equal((await store.count({})).dead, 2)
    assertFields(await store.groups.get(before.group ?? ''), { dead: 2 })
  },

  async 'a cancellation counts a task once that waits again, though others of its claim still run'(store) {
    await add(store, { id: 'a' }, { id: 'b' })
    const [first] = (await claim(store)).tasks
    assert.ok(first !== undefined)
    await settle(store, first, { type: 'retry', delayMs: 0, isBackoff: true }, { verdict: TIMED_OUT, error: 'Error' })
    const set = { filter: {}, until: await store.now() }
    const rows = await store.operations.survey('cancel', set)
    assert.equal(
      rows.reduce((sum, { count }) => sum + count, 0),
      2,
    )
    const { id } = await store.operations.create({ act: 'cancel', set, by: ANN, settings: {} })
    assert.deepEqual((await memberIds(store, id)).sort(), ['a', 'b'])
  },

  async 'a cancellation takes tasks that were submitted by its time and have not ended'(store, advance) {
    await add(store, { id: 'waits' }, { id: 'other', kind: 'l' })
    const running = await start(store, { id: 'runs', kind: 'm' })
    await killAll(store, advance, [{ id: 'dead', kind: 'n' }])
    const until = await store.now()
    await advance(1)
    await add(store, { id: 'late' })
    const all = await store.operations.create({ act: 'cancel', set: { filter: {}, until }, by: ANN })
    assertSame(await memberIds(store, all.id), ['waits', 'other', 'runs'])
    const set = { filter: { kind: 'k' }, until }
    assert.deepEqual(
      (await store.operations.survey('cancel', set)).map(({ count }) => count),
      [1],
    )
    const { moved } = await move(store, all, await take(store, all.id), ['waits', 'other', 'runs'])
    assertSame([...moved], ['waits', 'other', 'runs'])
    assert.deepEqual(await memberIds(store, all.id), [])
    assertFields(await get(store, 'waits'), { status: 'cancelled' })
    assertFields((await store.ledger('waits')).at(-1), { outcome: 'cancelled', worker: ANN.who, reason: ANN.why })
    await settle(store, running, { type: 'retry', delayMs: 0, isBackoff: true })
    assertFields(await get(store, 'runs'), { status: 'cancelled' })
    await store.operations.change(all.id, 'stop', ANN)
    await assert.rejects(store.operations.undo(all.id, { limit: 1 }, ANN), OptionError)
  },

  async 'an operation that is over is forgotten with the audit log'(store, advance) {
    const over = await createRedrive(store)
    await store.operations.change(over.id, 'stop', ANN)
    const long = await createRedrive(store)
    const open = await createRedrive(store)
    await advance(1000)
    await store.operations.change(long.id, 'stop', ANN)
    await store.prune({ auditMs: 500 }, 100)
    assert.equal(await store.operations.get(over.id), undefined)
    assert.ok(await store.operations.get(long.id), 'it is over since a moment ago, though it began long before')
    assert.ok(await store.operations.get(open.id))
  },

  async 'an edit replaces the payload of a task that waits or is dead, and keeps the original'(store, advance) {
    await killAll(store, advance, [{ id: 'dead' }])
    const waiting = await addOne(store, { id: 'waits', payload: '{"a":1}' })
    for (const id of ['dead', waiting]) assert.equal(await store.edit(id, '{"a":2}', ANN), true)
    assertFields(await get(store, 'dead'), { status: 'dead', payload: '{"a":2}', errorCode: 'E_BAD' })
    const row = (await store.ledger(waiting)).at(-1)
    assertFields(row, { outcome: 'edited', attempt: 0, worker: 'ann', reason: ANN.why })
    assert.deepEqual(row?.before, { payload: '{"a":1}' })
    const task = await claimOne(store)
    assert.equal(task.payload, '{"a":2}')
    assert.equal(await store.edit(waiting, '{}', ANN), false)
    await settle(store, task, { type: 'succeeded' })
    assert.equal(await store.edit(waiting, '{}', ANN), false)
    assert.equal(await store.edit('none', '{}', ANN), false)
    const outcomes = (await store.ledger(waiting)).map(({ outcome }) => outcome)
    assert.deepEqual(outcomes, ['edited', 'succeeded'])
    const [record] = (await store.audit.tail(1)).items
    assertFields(JSON.parse(record ?? '{}'), { event_type: 'task_edited', task: waiting, who: 'ann' })
  },

  async 'an operation that cannot be is refused'(store) {
    const set = { filter: {}, until: 1 }
    const refused: readonly object[] = [
      { act: 'forget', set, by: ANN },
      { act: 'redrive', set: { filter: { status: 'dead' }, until: 1 }, by: ANN },
      { act: 'redrive', set: { filter: { colour: 'red' }, until: 1 }, by: ANN },
      { act: 'redrive', set, by: {} },
      { act: 'discard', set, by: { who: 'ann' } },
      { act: 'discard', set, by: ANN, settings: { canary: 1 } },
      { act: 'redrive', set, by: ANN, settings: { canary: 0 } },
      { act: 'redrive', set, by: ANN, settings: { stopAbove: 1.1 } },
      { act: 'redrive', set, by: ANN, settings: { limit: 0 } },
      { act: 'redrive', set, by: ANN, settings: { fixedIn: { release: '1.0.0', before: [] } } },
      {
        act: 'discard',
        set: { filter: { kind: 'k' }, until: 1 },
        by: ANN,
        settings: { fixedIn: { release: '1.0.0', before: [] } },
      },
      { act: 'redrive', set, by: ANN, settings: { perSecond: 0 } },
      { act: 'redrive', set, by: ANN, settings: { perSecond: Number.POSITIVE_INFINITY } },
      { act: 'redrive', set, by: ANN, settings: { canry: 1 } },
      { act: 'discard', set, by: ANN, settings: { patch: { a: 1 } } },
      { act: 'redrive', set, by: ANN, settings: { patch: {} } },
      { act: 'redrive', set, by: ANN, settings: { patch: { a: undefined } } },
      { act: 'redrive', set, by: ANN, settings: { patch: ['a'] } },
      { act: 'redrive', set, by: ANN, settings: { patch: null } },
      { act: 'redrive', set, by: ANN, settings: { patch: { a: 1n } } },
      { act: 'redrive', set, by: ANN, settings: { patch: { a: 'x'.repeat(2 ** 16) } } },
    ]
    for (const operation of refused)
      await assert.rejects(store.operations.create(operation as NewOperation), OptionError, inspect(operation))
  },
}
