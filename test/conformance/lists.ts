import assert from 'node:assert/strict'
import { retryYields } from '../../src/operate/retry-yields.js'
import { OptionError } from '../../src/policy/index.js'
import type { TaskFilter } from '../../src/store/index.js'
import type { ClaimedTask, Outcome, RetriedTask, StoreContract } from '../../src/store/internal.js'
import { add, addOne, claim, claimOne, get, kill, type StoreBehaviours, settle, start } from './harness.js'

const DAY_MS = 86_400_000
const NONE = { waiting: 0, running: 0, succeeded: 0, skipped: 0, dead: 0, cancelled: 0 }

const OUTCOMES = {
  retry: { type: 'retry', delayMs: 0, isBackoff: false },
  dead: { type: 'dead', reason: 'attempts_exhausted' },
  skipped: { type: 'skipped', reason: 'done' },
  succeeded: { type: 'succeeded' },
} as const satisfies Record<string, Outcome>

export const LISTS: StoreBehaviours = {
  async 'an unknown task is undefined, and has no history'(store) {
    assert.equal(await store.get('unknown'), undefined)
    assert.deepEqual(await store.ledger('unknown'), [])
  },

  async 'the histories of several tasks are read at once, in the order asked for'(store) {
    await add(store, { id: 'b' }, { id: 'a' }, { id: 'c' })
    for (const task of (await claim(store, { limit: 2 })).tasks) {
      await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: false })
    }
    for (const task of (await claim(store, { limit: 1 })).tasks) await settle(store, task, { type: 'succeeded' })
    const ledgers = await store.ledgers(['c', 'b', 'unknown', 'a', 'b'])
    const [first, second] = await Promise.all([store.ledger('a'), store.ledger('b')])
    assert.deepEqual(ledgers, [[], second, [], first, second])
    assert.deepEqual([first.length, second.length], [2, 1])
    assert.deepEqual(await store.ledgers([]), [])
  },

  async 'the payloads of several tasks are read at once, in the order asked for'(store) {
    await add(store, { id: 'b', payload: '{"n": 1}' }, { id: 'a', payload: '"\\u0000 ü 🚀"' })
    const payloads = await store.payloads(['a', 'unknown', 'b', 'a'])
    assert.deepEqual(payloads, ['"\\u0000 ü 🚀"', undefined, '{"n": 1}', '"\\u0000 ü 🚀"'])
    assert.deepEqual(await store.payloads([]), [])
  },

  async 'retries are counted by the failure before them, and by whether they helped'(store, advance) {
    const retry = { type: 'retry', delayMs: 0, isBackoff: false } as const
    const outcomes: readonly (readonly Outcome[])[] = [
      [retry, { type: 'succeeded' }],
      [retry, retry, { type: 'dead', reason: 'attempts_exhausted' }],
      // Neither a deferral nor being called later tells whether the retry helped.
      [retry, { type: 'deferred', delayMs: 0 }, { type: 'later', delayMs: 0 }, { type: 'skipped', reason: 'done' }],
      [retry, { type: 'deferred', delayMs: 0 }],
      [{ type: 'succeeded' }],
    ]
    for (const ends of outcomes) {
      const id = await addOne(store, { category: 'c' })
      for (const outcome of ends) {
        const [task] = (await claim(store)).tasks
        assert.equal(task?.id, id)
        const failed = { verdict: { class: 'retryable', code: 'E1' }, error: 'boom', policy: 'p', random: 0 } as const
        await settle(store, task, outcome, { attempt: task.attempts + 1, ...(outcome.type === 'retry' && failed) })
      }
      await store.cancel([id])
      await advance(1000)
    }
    const now = await store.now()
    const sorted = (await retryYields(store, 0)).sort((a, b) => a.attempt - b.attempt)
    const row = { kind: 'k', category: 'c', code: 'E1', policy: 'p' }
    assert.deepEqual(
      sorted.map(({ firstAt: _, lastAt: __, ...one }) => one),
      [
        { ...row, attempt: 2, made: 3, succeeded: 2, recovered: 0 },
        { ...row, attempt: 3, made: 1, succeeded: 0, recovered: 0 },
      ],
    )
    assert.deepEqual(await retryYields(store, now + 1), [])
    await assert.rejects(retryYields(store, Number.NaN), OptionError)
  },

  async 'retries are counted by the day of the failure before them, in UTC'(store, advance) {
    const midnight = (Math.floor((await store.now()) / DAY_MS) + 2) * DAY_MS
    await advance(midnight - (await store.now()) - 1000)
    for (const waitMs of [400, 599, 1, 0]) {
      await advance(waitMs)
      await settleAs(store, await start(store), 'retry')
      await kill(store, await claimOne(store))
    }
    const days = (await retryYields(store, 0)).sort((a, b) => a.firstAt - b.firstAt)
    const row = { kind: 'k', category: '', code: 'E1', policy: '', attempt: 2, succeeded: 0, recovered: 0 }
    assert.deepEqual(days, [
      { ...row, made: 2, firstAt: midnight - 600, lastAt: midnight - 1 },
      { ...row, made: 2, firstAt: midnight, lastAt: midnight },
    ])
    assert.deepEqual(await retryYields(store, midnight), days.slice(1))
  },

  async 'a redriven task counts once for each attempt, and its success after a redrive counts'(store) {
    const rounds: Readonly<Record<string, readonly (readonly (keyof typeof OUTCOMES)[])[]>> = {
      'fails again': [
        ['retry', 'dead'],
        ['retry', 'dead'],
      ],
      'is helped by a retry': [
        ['retry', 'dead'],
        ['retry', 'succeeded'],
      ],
      'succeeds at once': [['retry', 'retry', 'dead'], ['succeeded']],
      'is skipped after two redrives': [['retry', 'dead'], ['dead'], ['skipped']],
      'dies at once': [['retry', 'dead'], ['dead']],
    }
    for (const [id, sets] of Object.entries(rounds)) {
      await add(store, { id })
      for (const [index, outcomes] of sets.entries()) {
        if (index > 0) assert.deepEqual(await store.redrive([id], { who: 'ann' }), [id])
        for (const type of outcomes) await settleAs(store, await claimOne(store), type)
      }
    }
    const sorted = (await retryYields(store, 0)).sort((a, b) => a.attempt - b.attempt)
    assert.deepEqual(
      sorted.map(({ attempt, made, succeeded, recovered }) => ({ attempt, made, succeeded, recovered })),
      [
        { attempt: 2, made: 5, succeeded: 1, recovered: 1 },
        { attempt: 3, made: 1, succeeded: 0, recovered: 1 },
      ],
    )
  },

  async 'retried tasks are read page by page, each with its whole history'(store, advance) {
    const failed = { verdict: { class: 'retryable', code: 'E\0' }, error: 'boom', policy: 'p' } as const
    const before = await store.now()
    for (const kind of ['old', 'a'])
      await settle(store, await start(store, { id: kind, kind, category: 's' }), OUTCOMES.retry, failed)
    await advance(1000)
    const since = await store.now()
    await settle(store, await claimOne(store, { kinds: ['a'] }), OUTCOMES.retry, failed)
    await settle(store, await claimOne(store, { kinds: ['a'] }), OUTCOMES.succeeded)
    await settle(store, await start(store, { id: 'b', kind: 'b' }), OUTCOMES.retry)
    await settle(store, await start(store, { id: 'c', kind: 'c' }), OUTCOMES.succeeded)
    const read: RetriedTask[] = []
    let after: string | undefined
    do {
      const { items, next } = await store.retried(since, { limit: 1, ...(after !== undefined && { after }) })
      assert.ok(items.length <= 1)
      read.push(...items)
      after = next
    } while (after !== undefined)
    const retry = { outcome: 'retry', attempt: 1, category: 's', policy: 'p', endedAt: before, code: 'E\0' }
    const bare = { ...retry, category: '', policy: '', endedAt: since, code: '' }
    const withoutSuccess = read.map(({ ends, ...task }) => ({
      ...task,
      ends: ends.filter(({ outcome }) => outcome !== 'succeeded'),
    }))
    assert.deepEqual(
      withoutSuccess.sort((a, b) => (a.id < b.id ? -1 : 1)),
      [
        { id: 'a', kind: 'a', hasSucceeded: true, ends: [retry, { ...retry, attempt: 2, endedAt: since }] },
        { id: 'b', kind: 'b', hasSucceeded: false, ends: [bare] },
      ],
    )
    assert.deepEqual((await store.retried(0, { limit: 0 })).items, [])
  },

  async 'an empty store lists and counts nothing'(store) {
    assert.deepEqual((await store.list({}, { limit: 10 })).items, [])
    assert.equal((await store.list({}, { limit: 10 })).next, undefined)
    assert.deepEqual(await store.count({}), NONE)
    assert.deepEqual(await store.lanes(), [])
  },

  async 'tasks are counted by fields that lanes know, and by those of their last error'(store) {
    const lanes = [{ kind: 'k' }, { kind: 'k', key: 't' }, { kind: 'l', category: 'c' }]
    await add(store, ...lanes.map((lane, index) => ({ ...lane, id: `waiting${index}` })))
    const dead = { type: 'dead', reason: 'final_error' } as const
    for (const code of ['E1', 'E1', 'E2']) {
      const verdict = { class: 'final', code } as const
      await settle(store, await start(store, { kind: 'm' }), dead, { verdict, error: 'boom' })
    }
    const count = async (...[filter, fields]: Parameters<StoreContract['countBy']>) =>
      (await store.countBy(filter, fields)).map(group => JSON.stringify(group)).sort()
    assert.deepEqual(await count({}, ['kind', 'status']), [
      '{"kind":"k","status":"waiting","count":2}',
      '{"kind":"l","status":"waiting","count":1}',
      '{"kind":"m","status":"dead","count":3}',
    ])
    assert.deepEqual(await count({ kind: 'k' }, ['key']), ['{"key":"","count":1}', '{"key":"t","count":1}'])
    assert.deepEqual(await count({ status: 'dead' }, []), ['{"count":3}'])
    assert.deepEqual(await count({ status: 'dead' }, ['kind', 'errorCode']), [
      '{"kind":"m","errorCode":"E1","count":2}',
      '{"kind":"m","errorCode":"E2","count":1}',
    ])
    assert.deepEqual(await count({ errorCode: 'E1' }, ['reason', 'status']), [
      '{"reason":"final_error","status":"dead","count":2}',
    ])
    assert.deepEqual(await count({ errorCode: 'E1' }, []), ['{"count":2}'])
    assert.deepEqual(await count({}, ['errorCode']), [
      '{"count":3}',
      '{"errorCode":"E1","count":2}',
      '{"errorCode":"E2","count":1}',
    ])
    assert.deepEqual(await count({ kind: 'none' }, ['errorCode']), [])
    assert.deepEqual(await count({ kind: 'none' }, []), [])
    await assert.rejects(store.countBy({}, ['id' as 'kind']), OptionError)
  },

  async 'a list has the newest change first, among equals the higher id'(store, advance) {
    await add(store, { id: 'b' }, { id: 'a' }, { id: 'c' })
    await advance(1)
    await add(store, { id: '0' })
    assert.deepEqual(await pages(store, {}, 10), [['0', 'c', 'b', 'a']])
    await advance(1)
    await claim(store, { limit: 1 })
    assert.deepEqual(await pages(store, {}, 10), [['a', '0', 'c', 'b']])
  },

  async 'a list has whole records'(store) {
    const id = await addOne(store, { category: 'c', key: 't', payload: '[1]', priority: 2 })
    assert.deepEqual((await store.list({}, { limit: 1 })).items, [await get(store, id)])
  },

  async 'a list is paged, and the last page says so'(store) {
    await add(store, ...['a', 'b', 'c', 'd', 'e', 'f'].map(id => ({ id })))
    assert.deepEqual(await pages(store, {}, 4), [
      ['f', 'e', 'd', 'c'],
      ['b', 'a'],
    ])
    assert.deepEqual(await pages(store, {}, 3), [
      ['f', 'e', 'd'],
      ['c', 'b', 'a'],
    ])
    assert.equal((await pages(store, { status: 'waiting' }, 1)).length, 6)
  },

  async 'a list misses nobody, whatever the characters of the ids'(store) {
    // UTF-16 has the rocket before U+FFEE, code points have it behind.
    await add(store, ...['a', '\uffee', '🚀', 'é', '🚀b', '\uffeeb'].map(id => ({ id })))
    assert.deepEqual((await pages(store, {}, 1)).flat(), ['🚀b', '🚀', '\uffeeb', '\uffee', 'é', 'a'])
  },

  async 'pages stay in place while tasks are added'(store, advance) {
    for (let index = 0; index < 9; index++) {
      await add(store, { id: `t${index}` })
      if (index % 2) await advance(1)
    }
    const seen: string[] = []
    for (let after: string | undefined, first = true; first || after !== undefined; first = false) {
      const page = await store.list({ kind: 'k' }, after === undefined ? { limit: 2 } : { limit: 2, after })
      seen.push(...page.items.map(({ id }) => id))
      after = page.next
      await advance(1)
      await add(store, {}, {})
    }
    assert.deepEqual(seen, ['t8', 't7', 't6', 't5', 't4', 't3', 't2', 't1', 't0'])
  },

  async 'a place that is none of this store’s is an OptionError'(store) {
    await add(store, { id: 'a' }, { id: 'b' })
    await store.audit.append(['1', '2'])
    for (const after of ['', 'x', '12', ':', 'x:1', '1e3:a', 'null', '-', "'; --"]) {
      await assert.rejects(store.list({}, { limit: 1, after }), OptionError, `list after ${JSON.stringify(after)}`)
    }
    for (const after of ['', 'x', '-1', '1.5', '0x1', '1:a', 'NaN'])
      await assert.rejects(store.audit.page({ limit: 1, after }), OptionError, `audit after ${JSON.stringify(after)}`)
  },

  async 'lists and counts are filtered by lane, status and error code'(store) {
    await kill(store, await start(store, { id: 'a', category: 'x', key: 't' }), 'E_ONE')
    await kill(store, await start(store, { id: 'b', kind: 'l' }), 'E_TWO')
    await settle(store, await start(store, { id: 'c', key: 't' }), { type: 'succeeded' })
    await add(store, { id: 'd', category: 'x' })
    const expected: [TaskFilter, string[]][] = [
      [{}, ['d', 'c', 'b', 'a']],
      [{ kind: 'k' }, ['d', 'c', 'a']],
      [{ category: 'x' }, ['d', 'a']],
      [{ category: '' }, ['c', 'b']],
      [{ key: 't' }, ['c', 'a']],
      [{ kind: 'k', category: '', key: 't' }, ['c']],
      [{ status: 'dead' }, ['b', 'a']],
      [{ status: 'running' }, []],
      [{ errorCode: 'E_ONE' }, ['a']],
      [{ status: 'dead', kind: 'l', errorCode: 'E_TWO' }, ['b']],
      [{ errorCode: '' }, []],
    ]
    for (const [filter, ids] of expected) {
      assert.deepEqual((await pages(store, filter, 10)).flat(), ids, JSON.stringify(filter))
      const total = Object.values(await store.count(filter)).reduce((sum, count) => sum + count, 0)
      assert.equal(total, ids.length, JSON.stringify(filter))
    }
    assert.deepEqual(await store.count({}), { ...NONE, dead: 2, succeeded: 1, waiting: 1 })
    assert.deepEqual(await store.count({ status: 'dead' }), { ...NONE, dead: 2 })
    assert.deepEqual(await store.count({ kind: 'unknown' }), NONE)
    const failed = { verdict: { class: 'retryable', code: 'E_ONE' }, error: 'Error: bad' } as const
    await settle(store, await claimOne(store), { type: 'retry', delayMs: 0, isBackoff: true }, failed)
    assert.deepEqual(await store.count({ errorCode: 'E_ONE' }), { ...NONE, dead: 1, waiting: 1 })
    assert.deepEqual(await store.count({ errorCode: 'E_ONE', status: 'dead' }), { ...NONE, dead: 1 })
  },

  async 'dead letters are listed newest first'(store, advance) {
    await add(store, { id: 'a' }, { id: 'b' }, { id: 'c' })
    const { tasks } = await claim(store)
    for (const id of ['b', 'c', 'a']) {
      const task = tasks.find(one => one.id === id)
      if (task) await kill(store, task)
      await advance(1)
    }
    assert.deepEqual(await pages(store, { status: 'dead' }, 2), [['a', 'c'], ['b']])
  },
}

async function pages(store: StoreContract, filter: TaskFilter, limit: number): Promise<string[][]> {
  const found: string[][] = []
  for (let after: string | undefined; ; ) {
    const page = await store.list(filter, after === undefined ? { limit } : { limit, after })
    found.push(page.items.map(({ id }) => id))
    if (page.next === undefined) return found
    after = page.next
  }
}

/** Settles an attempt that failed with `E1`, or that succeeded. */
async function settleAs(store: StoreContract, task: ClaimedTask, type: keyof typeof OUTCOMES): Promise<void> {
  const failed = { verdict: { class: 'retryable', code: 'E1' }, error: 'boom', random: 0 } as const
  const hasFailed = type === 'retry' || type === 'dead'
  assert.equal(await settle(store, task, OUTCOMES[type], hasFailed ? failed : {}), 'settled')
}
