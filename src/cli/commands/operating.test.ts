import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deadLetters } from '../../../test/dead-letters.js'
import { type StoreFolder, storeFolder } from '../../../test/store-folder.js'
import { hashJson } from '../../policy/index.js'
import type { StoreContract } from '../../store/internal.js'

let folder: StoreFolder
beforeEach(() => {
  folder = storeFolder()
})
afterEach(() => folder.remove())

const statuses = () => folder.inStore(store => store.count({}))
const TERMINAL = { isTTY: { stdin: true, stdout: true, stderr: true }, columns: 80, env: { NO_COLOR: '1' } }

describe('task cancel', () => {
  beforeEach(() =>
    folder.inStore(async store => {
      await deadLetters(store, [{ id: 'dead' }])
      await store.enqueue(['a', 'b'].map(id => ({ id, kind: 'k', payload: '1' })))
    }),
  )

  it('ends waiting tasks, on record', async () => {
    const { code, err } = await folder.redrive(['task', 'cancel', 'a', 'a', '--why', 'withdrawn', '--yes'])
    expect({ code, err }).toEqual({ code: 0, err: '1 cancelled.\n' })
    expect(await statuses()).toMatchObject({ waiting: 1, cancelled: 1, dead: 1 })
    expect((await folder.redrive(['audit', 'tail'])).lines()[1]).toMatch(/tasks_cancelled +ada +withdrawn/)
  })

  it('ends with 3 if some could not be cancelled, and with 1 if none could', async () => {
    const some = await folder.redrive(['task', 'cancel', 'a', 'dead', 'x', '--yes', '--output', 'json'])
    expect(some).toMatchObject({ code: 3 })
    expect(some.json()).toMatchObject({ cancelled: 1, ids: ['a'], refused: [{ id: 'dead' }, { id: 'x' }] })
    expect(some.err).toBe("'dead' has ended already: it is dead.\n'x' is not in the store.\n1 cancelled.\n")
    expect(await folder.redrive(['task', 'cancel', 'a', '--yes'])).toMatchObject({ code: 1 })
  })

  it('says that a running task was already asked to end, and who asked', async () => {
    await folder.inStore(async store => {
      const rooms = [{ kinds: ['k'] }]
      await store.claim({ worker: 'w', leaseMs: 3_600_000, rooms, limit: 1, isIdle: true })
    })
    expect(await folder.redrive(['task', 'cancel', 'a', '--why', 'it hangs', '--yes'])).toMatchObject({ code: 0 })
    const { code, err } = await folder.redrive(['task', 'cancel', 'a', '--yes'])
    expect(code).toBe(1)
    expect(err).toContain("'a' is running, and its cancellation was requested already: it ends when its handler does.")
    expect((await folder.redrive(['task', 'show', 'a'])).out).toMatch(/cancel_requested\n +by ada: it hangs/)
    expect((await folder.redrive(['why', 'a'])).out).toContain('by ada: it hangs')
  })

  it('asks first; without a terminal it names the flag', async () => {
    expect(await folder.redrive(['task', 'cancel', 'a'])).toMatchObject({
      code: 2,
      err: 'redrive: This would cancel 1 task. Without a terminal to confirm on, pass --yes. 0 cancelled.\n',
    })
    const questions: string[] = []
    const prompt = async (question: string) => {
      questions.push(question)
      return 'y'
    }
    expect(await folder.redrive(['task', 'cancel', 'a', 'b'], { ...TERMINAL, prompt })).toMatchObject({ code: 0 })
    expect(questions).toEqual(['Cancel 2 tasks? [y/N] '])
  })
})

describe('stats', () => {
  it('counts tasks by kind and status', async () => {
    await folder.inStore(async store => {
      await deadLetters(store, [{ id: 'dead', kind: 'email' }])
      await store.enqueue(Array.from({ length: 1200 }, (_, i) => ({ id: `t${i}`, kind: 'report', payload: '1' })))
    })
    const { code, err, lines } = await folder.redrive(['stats'], TERMINAL)
    expect({ code, err }).toEqual({
      code: 0,
      err: 'No worker is running.\n1 failure group with tasks: redrive groups ls\n',
    })
    expect(lines().map(line => line.replace(/ +\d+s$/, ' AGED'))).toEqual([
      'KIND    WAITING  READY  RUNNING  SUCCEEDED  DEAD  AGE',
      'email   0        0      0        0          1',
      expect.stringMatching(/^report {2}1 200 {4}1 200 {2}0 {8}0 {10}0 +(AGED|0ms)$/),
      'all     1 200    1 200  0        0          1',
    ])
    await folder.inStore(store => store.heartbeat({ worker: 'w', leaseMs: 60_000 }))
    await folder.redrive(['lane', 'pause', '--kind', 'report'])
    const paused = await folder.redrive(['stats', '--output', 'json'])
    expect(paused.err).toBe(
      '1 worker running: redrive worker ls\n1 200 tasks wait in paused lanes: redrive lane ls --state paused\n1 failure group with tasks: redrive groups ls\n',
    )
    await folder.inStore(store => store.heartbeat({ worker: 'w', leaseMs: 60_000, isPaused: true }))
    const resting = '1 worker running, paused by its code: redrive worker ls\n'
    expect((await folder.redrive(['stats', '--output', 'json'])).err).toContain(resting)
    const ready = { ready: 0, readySince: null, held: 0 }
    expect(paused.json()).toMatchObject({ workers: 1, kinds: [{ dead: 1 }, { waiting: 1200, paused: 1200, ...ready }] })
    const { lines: table } = await folder.redrive(['stats'], TERMINAL)
    expect(table()[0]).toBe('KIND    WAITING  READY  PAUSED  RUNNING  SUCCEEDED  DEAD')
    expect(table()[2]).toBe('report  1 200    0      1 200   0        0          0')
  })

  it('says which tasks no worker runs, and when they are given up', async () => {
    const policy = JSON.stringify({ ttl: 3_600_000 })
    await folder.inStore(async store => {
      await store.policies.keep(hashJson(policy), policy)
      await store.lifetimes.declare([{ kind: 'report', category: 'bulk', policy: hashJson(policy) }])
      await store.enqueue([{ id: 'a', kind: 'report', category: 'bulk', payload: '1' }])
    })
    const waits = "1 task waits for a worker that runs 'report' in category 'bulk'"
    const text = `${waits}; any worker gives each of them up 1h after it was due: redrive task ls --status waiting --kind report`
    expect((await folder.redrive(['stats'])).err).toContain(text)
    await folder.inStore(store => store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: ['report'] }))
    expect((await folder.redrive(['stats'])).err).not.toContain('gives')
  })

  it('keeps kinds whole on a terminal of 80 columns', async () => {
    const kind = 'notify:webhook-delivery-to-partners'
    await folder.inStore(store => store.enqueue(['a', 'b'].map(id => ({ id, kind, payload: '1' }))))
    await folder.redrive(['task', 'cancel', 'a', '--yes'])
    await folder.redrive(['lane', 'pause', '--kind', kind])
    const { lines } = await folder.redrive(['stats'], TERMINAL)
    expect(lines()).toEqual([
      `KIND${' '.repeat(33)}WAITING  READY  PAUSED  RUNNING  DEAD`,
      `${kind}  1        0      1       0        0`,
      '  cancelled 1',
    ])
  })

  it('points to the failure groups, unless nothing of them is left or they are ignored', async () => {
    const group = {
      id: '1-9c2f',
      kind: 'email',
      code: 'http_502',
      errorName: 'Error',
      pattern: 'Bad gateway',
      frames: [],
    }
    await folder.inStore(async store => {
      await store.enqueue([{ id: 'a', kind: 'email', payload: '1' }])
      const rooms = [{ kinds: ['email'] }]
      const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 1, isIdle: true })
      const verdict = { class: 'retryable', code: 'http_502' } as const
      const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w', verdict, group }
      const outcome = { type: 'retry', delayMs: 60_000, isBackoff: true } as const
      await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
    })
    expect((await folder.redrive(['stats'])).err).toContain('1 failure group with tasks: redrive groups ls\n')
    await folder.redrive(['groups', 'ignore', '9c2f'])
    expect((await folder.redrive(['stats'])).err).not.toContain('failure group')
  })

  it('says that there are none', async () => {
    await folder.inStore(async () => {})
    expect(await folder.redrive(['stats'])).toMatchObject({
      code: 0,
      out: '',
      err: 'No tasks.\nNo worker is running.\n',
    })
    expect((await folder.redrive(['stats', '--output', 'json'])).json()).toMatchObject({ kinds: [] })
  })
})

describe('audit tail', () => {
  it('shows the last records, oldest first, whatever they are', async () => {
    await folder.inStore(store => store.audit.append(['1', '"text"', '{"event_type":"mine","n":2,"at":null}', '[3]']))
    const { lines } = await folder.redrive(['audit', 'tail', '--limit', '3'])
    expect(lines()).toEqual([
      'TIME  EVENT  WHO  WHY',
      '-     -      -    -',
      '  record=text',
      '-     mine   -    -',
      '  n=2',
      '-     -      -    -',
      '  record=[3]',
    ])
  })

  it('wraps what does not fit the terminal onto indented lines', async () => {
    const why = 'the gateway is back, and the provider has confirmed that all of them may be charged again'
    const ids = Array.from({ length: 12 }, (_, i) => `order-${i}`)
    const record = {
      event_type: 'tasks_cancelled',
      count: 12,
      ids,
      who: 'ada',
      why,
      timestamp: '2026-07-30T10:00:00.000Z',
    }
    await folder.inStore(store =>
      store.audit.append([record, { ...record, why: 'a mistake' }].map(each => JSON.stringify(each))),
    )
    const { lines, out } = await folder.redrive(['audit', 'tail'], TERMINAL)
    expect(lines().every(line => line.length <= 80)).toBe(true)
    const [, first = '', second = ''] = out.split(/^2026.*\n/m).map(text => text.replaceAll(/^ {2}/gm, ''))
    expect(first.replaceAll('\n', ' ')).toContain(`why ${why} count=12`)
    expect(first.replaceAll('\n', '')).toContain(`ids=${JSON.stringify(ids)}`)
    expect(second.replaceAll('\n', '')).toBe(`count=12ids=${JSON.stringify(ids)}`)
  })

  it('follows until a signal, and misses nothing', async () => {
    await folder.inStore(store => store.audit.append(['{"n":1}']))
    let stop = (_: string) => {}
    const onSignal = (callback: (signal: string) => void) => {
      stop = callback
      return () => {}
    }
    let out = ''
    const stdout = { write: (text: string) => (out += text) }
    const argv = ['audit', 'tail', '--follow', '--output', 'jsonl']
    const following = folder.redrive(argv, { stdout, onSignal })
    const until = async (text: string) => {
      while (!out.includes(text)) await new Promise(resolve => setTimeout(resolve, 10))
    }
    await until('1')
    await folder.inStore(store => store.audit.append(Array.from({ length: 1200 }, (_, i) => `{"n":${i + 2}}`)))
    await until('1201')
    stop('SIGINT')
    expect(await following).toMatchObject({ code: 0, err: '' })
    expect(out.trimEnd().split('\n')).toEqual(Array.from({ length: 1201 }, (_, i) => `{"n":${i + 1}}`))
  })
})

/** Lets the first attempt of each task fail, under a policy that asks for a retry after a second. */
async function retryIn(store: StoreContract, delayMs: number): Promise<void> {
  const policy = { attempts: 3, backoff: { kind: 'fixed', base: 1000 }, jitter: 'none' }
  const hash = hashJson(policy)
  await store.policies.keep(hash, JSON.stringify(policy))
  const rooms = [{ kinds: ['k'] }]
  const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 100, isIdle: true })
  const decision = { verdict: { class: 'retryable', code: 'E' }, random: 0.5, policy: hash } as const
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w', error: 'x', ...decision }
  const outcome = { type: 'retry', delayMs, isBackoff: true } as const
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
}

describe('audit verify of a store that was damaged', () => {
  const file = () => join(folder.path, '.redrive/redrive.db')
  const damage = (sql: string) => {
    const db = new Database(file())
    db.exec(sql)
    db.close()
  }
  beforeEach(() =>
    folder.inStore(async store => {
      await store.enqueue(['a', 'b'].map(id => ({ id, kind: 'k', payload: `{"order":"${id}${id}${id}"}` })))
      await retryIn(store, 1000)
      await store.audit.append(['{"event_type":"checked"}'])
      const set = { filter: { kind: 'k' }, until: 0 }
      await store.operations.create({ act: 'redrive', set, by: { who: 'ada' } })
      const rooms = [{ kinds: ['steps'] }]
      await store.enqueue([{ id: 'c', kind: 'steps', payload: '1' }])
      const { tasks } = await store.claim({ worker: 'w', leaseMs: 1000, rooms, limit: 1, isIdle: true })
      const state = '{"since":0,"startedAt":0,"attempts":0,"deferrals":0,"ledger":[]}'
      for (const { id, token } of tasks)
        await store.recordStep({ id, token, name: 'charge', isDone: true, result: '{"id":7}', state })
    }),
  )

  it.each([
    [
      'a gap in a ledger',
      "DELETE FROM ledger WHERE task = (SELECT seq FROM task WHERE id = 'a')",
      /^a +it has failed attempts: 1, and its ledger 0$/m,
    ],
    ['a ledger without its first row', 'UPDATE ledger SET sequence = 2', /^b +row 1 of its ledger is missing$/m],
    ['a status that the rest contradicts', "UPDATE task SET state = 5 WHERE id = 'a'", /^a +it is /m],
    [
      'a policy',
      "UPDATE policy SET policy = replace(policy, '1000', '1001')",
      /^- +the policy [0-9a-f]+ is not the one/m,
    ],
    ['an audit record', "UPDATE audit SET record = '{'", /^- +the audit record '{' is not JSON$/m],
    ['the result of a step', "UPDATE step SET result = '{'", /^c +the result of its step 'charge' is not JSON$/m],
    ['the record of a step', "UPDATE step SET state = '{'", /^c +the record of its step 'charge' is damaged$/m],
    ['a step without its ledger', "UPDATE step SET state = '{}'", /^c +the record of its step 'charge' is damaged$/m],
    [
      'a bulk act',
      "UPDATE record SET state = '{' WHERE type = 'operation'",
      /^- +the operation '[\w-]+' is not JSON$/m,
    ],
  ])('names %s, and ends with 1', async (_, sql, line) => {
    expect(await folder.redrive(['audit', 'verify'])).toMatchObject({ code: 0 })
    damage(sql)
    const { code, out, err } = await folder.redrive(['audit', 'verify'])
    expect(out).toMatch(line)
    expect(err).toContain('damage from outside. Compare with a backup of the store.')
    expect(code).toBe(1)
  })

  it('names a payload in which one bit is flipped, if that is no longer JSON', async () => {
    const bytes = readFileSync(file())
    const at = bytes.indexOf('{"order":"aaa"}')
    expect(at).toBeGreaterThan(0)
    bytes[at] = (bytes[at] ?? 0) ^ 0x40
    writeFileSync(file(), bytes)
    const { code, json } = await folder.redrive(['audit', 'verify', '--output', 'json'])
    expect(json()).toMatchObject({ problems: [{ taskId: 'a', problem: 'its payload is not JSON' }] })
    expect(code).toBe(1)
  })

  it('ends with 3 if a policy is missing', async () => {
    damage('DELETE FROM policy')
    const { code, err } = await folder.redrive(['audit', 'verify'])
    expect(err).toContain('2 could not be recomputed: the store does not have their policy.')
    expect(code).toBe(3)
  })
})

it('audit verify recomputes the decisions, and ends with 1 if one differs', async () => {
  await folder.inStore(async store => {
    await store.enqueue([{ id: 'a', kind: 'k', payload: '1' }])
    await retryIn(store, 5000)
  })
  const { code, lines, err } = await folder.redrive(['audit', 'verify'])
  expect(code).toBe(1)
  expect(err).toBe('1 decision on 1 task recomputed: 1 differs.\n')
  expect(lines()[1]).toMatch(/^a +1 +retry after 5000 ms +retry after 1000 ms$/)
  const { json } = await folder.redrive(['audit', 'verify', '--output', 'json'])
  expect(json()).toMatchObject({ tasks: 1, decisions: 1, unknown: 0, discrepancies: [{ taskId: 'a' }] })
})

it('audit verify stops at a signal, with 3', async () => {
  await folder.inStore(store => store.enqueue([{ id: 'a', kind: 'k', payload: '1' }]))
  const onSignal = (callback: (signal: string) => void) => {
    callback('SIGINT')
    return () => {}
  }
  const { code, err } = await folder.redrive(['audit', 'verify'], { onSignal })
  expect(code).toBe(3)
  expect(err).toBe('SIGINT: stopping after this page.\nStopped before the end. Run it again to verify all of it.\n')
})

describe('prune', () => {
  beforeEach(() =>
    folder.inStore(async store => {
      await deadLetters(store, [{ id: 'dead' }])
      const ids = Array.from({ length: 1200 }, (_, i) => `t${i}`)
      await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '1' })))
      await store.cancel(ids)
    }),
  )

  it('shows what it would delete, and deletes nothing', async () => {
    await folder.inStore(store => store.audit.append(['{}']))
    const dry = await folder.redrive(['prune', '--keep', '0s', '--keep-dead', '0s', '--dry-run'])
    expect(dry).toMatchObject({
      code: 0,
      err: '1 200 tasks, 1 dead letter, 1 record would be deleted. This was a dry run: 0 deleted.\n',
    })
    const { json } = await folder.redrive(['prune', '--keep-dead', '0s', '--dry-run', '--output', 'json'])
    expect(json()).toEqual({ tasks: 0, deadLetters: 1, runs: 0, items: 0, keys: 0, records: 0 })
    expect(await statuses()).toMatchObject({ dead: 1, cancelled: 1200 })
  })

  it('deletes by status, and all but the newest of a status', async () => {
    const prune = (...flags: string[]) => folder.redrive(['prune', ...flags])
    const asked = await prune('--keep-succeeded', '1h', '--keep-cancelled', '0s', '--keep-count', 'dead=0')
    expect(asked.err).toContain(
      'tasks that succeeded older than 1h and cancelled tasks older than 0ms and all dead letters but the newest 0',
    )
    expect((await prune('--keep-succeeded', '1h', '--dry-run')).err).toMatch(/^Nothing would be deleted/)
    expect((await prune('--keep-count', 'dead=0', '--dry-run')).err).toMatch(/^1 dead letter would be deleted/)
    expect((await prune('--keep-count', 'waiting=1')).err).toContain("such as 'succeeded=10000'")
  })

  it('deletes ended work that is older, and keeps the rest', async () => {
    expect(await folder.redrive(['prune', '--keep', '1h', '--yes'])).toMatchObject({ code: 0, err: '0 deleted.\n' })
    const { err, json } = await folder.redrive(['prune', '--keep', '0s', '--yes', '--output', 'json'])
    expect(err).toBe('1 200 deleted.\n')
    expect(json()).toEqual({ deleted: 1200, isStopped: false })
    expect(await statuses()).toMatchObject({ dead: 1, cancelled: 0 })
    expect((await folder.redrive(['prune', '--keep-dead', '0s', '--yes'])).err).toBe('1 deleted.\n')
  })

  it('asks first, and says what it is about to delete', async () => {
    const questions: string[] = []
    const prompt = async (question: string) => {
      questions.push(question)
      return 'n'
    }
    const argv = ['prune', '--keep', '30d', '--keep-dead', '0s']
    expect(await folder.redrive(argv, { ...TERMINAL, prompt })).toMatchObject({ code: 2 })
    expect(questions).toEqual([
      'Delete work that ended more than 30d ago and dead letters older than 0ms for good? [y/N] ',
    ])
    expect(await folder.redrive(argv)).toMatchObject({ code: 2, err: expect.stringContaining('pass --yes') })
    expect(await folder.redrive(['prune', '--yes'])).toMatchObject({ code: 2, err: expect.stringContaining('--keep') })
    expect(await statuses()).toMatchObject({ dead: 1, cancelled: 1200 })
  })
})
