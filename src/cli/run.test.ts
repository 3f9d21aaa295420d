import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCommand } from '../../test/command.js'
import { FinalError, RateLimitedError } from '../policy/index.js'
import { openSqlite, type SqliteStore } from '../store/sqlite/internal.js'

import { defineTask, skip, TaskQueue, Worker } from '../task/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import type { Environment } from './environment.js'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Runs the command in the test's folder. */
const redrive = (argv: readonly string[], overrides: Partial<Environment> = {}) =>
  runCommand(argv, { cwd: folder, ...overrides })

const TERMINAL = { isTTY: { stdin: true, stdout: true, stderr: true }, columns: 80 }

const email = defineTask('send-email', {
  policy: { attempts: 3, backoff: { base: '1m' } },
  handler: ({ to }: { to: string }) => {
    if (to === 'nobody') return skip('nobody to send it to')
    if (to === 'ok') return { sent: true }
    if (to === 'bad') throw new FinalError('no such mailbox')
    if (to === 'limited') throw new RateLimitedError('slow down', { retryAfterMs: 600_000 })
    throw Object.assign(new Error(`mail server refuses ${to}`), { code: 'ECONNREFUSED' })
  },
})
const report = defineTask('report', { handler: () => Promise.reject(new FinalError('no data')) })

/** Has tasks run in the default store: at once, and again after each hour. */
async function history(fill: (queue: TaskQueue, clock: FakeClock) => Promise<unknown>, turns = 4) {
  const clock = fakeClock()
  const store = await openSqlite(join(folder, '.redrive/redrive.db'), { clock })
  await fill(new TaskQueue(store), clock)
  const worker = new Worker(store, { tasks: [email, report], clock, lease: '2d' })
  await worker.start()
  await untilQuiet(store)
  for (let turn = 0; turn < turns; turn++) {
    await clock.advance('1h')
    await untilQuiet(store)
  }
  const stopping = worker.stop()
  await clock.advance(0)
  await stopping
  await store.close()
}

async function untilQuiet(store: SqliteStore) {
  for (let quiet = 0; quiet < 5; quiet++) {
    await new Promise(resolve => setTimeout(resolve, 5))
    if ((await store.count({})).running > 0) quiet = 0
  }
}

async function inStore<T>(use: (store: SqliteStore) => Promise<T>): Promise<T> {
  const store = await openSqlite(join(folder, '.redrive/redrive.db'))
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}

/** Dead letters by hand, with any id, code and message. */
function deadLetters(
  letters: readonly { id: string; kind?: string; code?: string; message?: string; stack?: string; trace?: string }[],
) {
  return inStore(async store => {
    await store.enqueue(letters.map(({ id, kind = 'k' }) => ({ id, kind, payload: '{}' })))
    const kinds = [...new Set(letters.map(({ kind = 'k' }) => kind))]
    const { tasks, now } = await store.claim({
      worker: 'w',
      leaseMs: 60_000,
      rooms: [{ kinds }],
      limit: 10_000,
      isIdle: true,
    })
    await store.settle(
      tasks.map(({ id, token }) => {
        const { code = 'E', message = 'broken', stack, trace } = letters.find(letter => letter.id === id) ?? {}
        const verdict = { class: 'retryable', code } as const
        const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w', verdict, error: message, stack, trace }
        return { id, token, outcome: { type: 'dead', reason: 'attempts_exhausted' } as const, attempt }
      }),
    )
    await store.leave('w')
  })
}

describe('every command', () => {
  it.each([
    ['task', 'ls'],
    ['task', 'show', 'x'],
    ['dlq', 'ls'],
    ['dlq', 'show', 'x'],
    ['dlq', 'redrive', '--all', '--yes'],
  ])('says that there is no store and makes none: %s %s', async (...argv) => {
    const { code, out, err } = await redrive(argv)
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain("There is no store at '.redrive/redrive.db'")
    expect(existsSync(join(folder, '.redrive'))).toBe(false)
  })

  it('takes the store from --store, else from REDRIVE_STORE', async () => {
    const env = { REDRIVE_STORE: 'sqlite:./from-env.db' }
    expect((await redrive(['task', 'ls'], { env })).err).toContain("'from-env.db'")
    expect((await redrive(['task', 'ls', '--store', 'sqlite:flag.db'], { env })).err).toContain("'flag.db'")
    expect((await redrive(['task', 'ls', '--store', 'sqlite:///no/where.db'])).err).toContain("'/no/where.db'")
  })

  it.each([
    ['mysql://ada:secret@db/x', "of the kind 'mysql:' are not supported"],
    ['postgres://ada:secret%@db:x/y', 'percent-encoded'],
    ['host=db user=ada password=secret', "named by a URL. Pass one such as 'sqlite:./.redrive/redrive.db'"],
    ['secret@db/app', "named by a URL. Pass one such as 'sqlite:./.redrive/redrive.db'"],
    ['sqlite://ada:secret@db/x.db', 'names no file'],
    ['./redrive.db', "Did you mean 'sqlite:./redrive.db'"],
    ['sqlite:', 'names no file'],
    ['sqlite::memory:', 'names no file'],
    ['sqlite://host/x.db', 'names no file'],
  ])('refuses the store %s, and repeats no password', async (url, text) => {
    const { code, err } = await redrive(['task', 'ls', '--store', url])
    expect(code).toBe(2)
    expect(err).toContain(text)
    expect(err).not.toContain('secret')
  })

  it.each([
    ['--stoer=postgres://ada:hunter2@db/x', "unknown option '--stoer=postgres://ada:[redacted]@db/x'"],
    ['--limit=password=hunter2', "option '--limit <n>' argument 'password=[redacted]' is invalid"],
  ])('repeats no password of an argument that it does not understand: %s', async (argument, text) => {
    const { code, err } = await redrive(['task', 'ls', argument])
    expect(code).toBe(2)
    expect(err).toContain(text)
    expect(err).not.toContain('hunter2')
  })

  it('refuses a file that is not a store, in words', async () => {
    writeFileSync(join(folder, 'notes.txt'), 'buy milk')
    const { code, err } = await redrive(['task', 'ls', '--store', 'sqlite:notes.txt'])
    expect(code).toBe(1)
    expect(err).toMatch(/^redrive: .*notes\.txt' is not a Redrive store/)
  })

  it.each([
    [
      'a folder',
      (file: string) => mkdirSync(join(file, 'x'), { recursive: true }),
      /is not a Redrive store: it is a folder/,
    ],
    [
      'a path within a file',
      () => writeFileSync(join(folder, 'store'), 'x'),
      /^redrive: '.*' refuses this user: E\w+: /,
    ],
  ])('says what to do about %s', async (what, make, text) => {
    const path = join(folder, what === 'a folder' ? 'folder.db' : 'store/x.db')
    make(path)
    const argv = ['migrate', '--store', `sqlite:${path}`]
    const { code, err } = await redrive(argv)
    expect(code).toBe(1)
    expect(err).toMatch(text)
  })

  it.runIf(process.getuid?.() !== 0)('says what to do about a file that it may not open', async () => {
    await inStore(async () => {})
    chmodSync(join(folder, '.redrive/redrive.db'), 0)
    expect((await redrive(['task', 'ls'])).err).toMatch(/refuses this user: EACCES: .* Check that its folder exists/)
  })

  it.each([
    [[]],
    [['nope']],
    [['task', 'lss']],
    [['task', 'ls', '--status', 'gone']],
    [['task', 'ls', '--limit', '0']],
    [['task', 'ls', '--limit', '1e3']],
    [['task', 'ls', '--kind', '']],
    [['task', 'ls', '--output', 'xml']],
    [['task', 'show']],
    [['worker', 'x.js', '--lease', 'soon']],
    [['worker', 'x.js', '--concurrency', '0']],
  ])('ends with 2 when it is called wrongly: %j', async argv => {
    const { code, out, err } = await redrive(argv)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).not.toBe('')
  })

  it.each([
    [[]],
    [['worker']],
    [['task']],
    [['task', 'ls']],
    [['task', 'show']],
    [['dlq', 'ls']],
    [['dlq', 'redrive']],
    ...['count', 'discard'].map(verb => [['dlq', verb]]),
    [['task', 'cancel']],
    [['lane']],
    ...['ls', 'pause', 'limit'].map(verb => [['lane', verb]]),
    [['stats']],
    [['audit', 'tail']],
    [['prune']],
    [['policy', 'report']],
    [['groups', 'ls']],
    ...['fix', 'ignore'].map(verb => [['groups', verb]]),
    [['groups', 'rule', 'add']],
    ...['why', 'move', 'sweep', 'migrate'].map(name => [[name]]),
    [['budget', 'set']],
    ...['edit', 'export'].map(verb => [['dlq', verb]]),
  ])('has a help that fits 80 columns: %j', async argv => {
    const { code, out, err, lines } = await redrive([...argv, '--help'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^Usage: redrive/)
    expect(lines().filter(line => line.length > 80)).toEqual([])
    if (!['task', 'lane'].includes(argv.join(' '))) expect(out).toContain('Examples:')
  })

  it('has the same help under `help`', async () => {
    for (const words of [[], ['worker'], ['dlq'], ['dlq', 'ls'], ['queue', 'inspect']]) {
      const { code, out, err } = await redrive(['help', ...words])
      expect({ code, err }).toEqual({ code: 0, err: '' })
      expect(out).toBe((await redrive([...words, '--help'])).out)
    }
    const unknown = await redrive(['help', 'dlq', 'lss'])
    expect(unknown).toMatchObject({ code: 2, out: '' })
    expect(unknown.err).toBe(
      "redrive: 'redrive dlq' has no command 'lss'. It has: ls, count, show, redrive, edit, discard, export.\n",
    )
    expect((await redrive(['help', 'dlq', 'ls', 'x'])).err).toContain("'redrive dlq ls' has no command 'x'")
  })

  it.each([['init'], ['dlq', 'lss'], ['groups', 'rule', 'x'], ['taks', 'ls'], ['--help', 'init']])(
    'knows no command %s, with --help or without',
    async (...argv) => {
      const words = argv.filter(word => word !== '--help')
      const plain = await redrive(words)
      expect(plain).toMatchObject({ code: 2, out: '' })
      expect(plain.err).toContain('unknown command')
      for (const help of ['--help', '-h'])
        expect(await redrive([...argv, help])).toMatchObject({ code: 2, err: plain.err })
    },
  )

  it.each([
    ['--json', '--output json'],
    ['--jsonl', '--output jsonl'],
    ['--format=json', '--output json'],
    ['--outptu', '--output'],
  ])('suggests the right flag for %s', async (flag, suggestion) => {
    const { code, err } = await redrive(['dlq', 'ls', flag])
    expect(code).toBe(2)
    expect(err).toContain(`(Did you mean ${suggestion}?)`)
  })

  it('prints its version', async () => {
    expect((await redrive(['--version'])).out).toMatch(/^\d+\.\d+\.\d+\n$/)
  })

  it('is in colour on a terminal, unless NO_COLOR is set', async () => {
    await deadLetters([{ id: 'a' }])
    expect((await redrive(['dlq', 'ls'], TERMINAL)).out).toContain('\x1b[')
    expect((await redrive(['dlq', 'ls'], { ...TERMINAL, env: { NO_COLOR: '1' } })).out).not.toContain('\x1b')
    expect((await redrive(['dlq', 'ls'])).out).not.toContain('\x1b')
  })
})

describe('what reaches a terminal', () => {
  const HOSTILE = 'a\x1b]0;owned\x07\x9b31m\u202eb\r\n'

  it.each(['table', 'json', 'jsonl'])(
    'has no control characters of payloads, errors or ids in it: %s',
    async output => {
      await deadLetters([{ id: HOSTILE, kind: 'k', code: HOSTILE, message: HOSTILE }])
      await inStore(store => store.enqueue([{ id: 'p', kind: 'k', payload: JSON.stringify(HOSTILE) }]))
      const results = [
        await redrive(['task', 'ls', '--output', output]),
        await redrive(['task', 'ls', '--limit', '1', '--output', output]),
        await redrive(['task', 'show', 'p', '--output', output]),
        await redrive(['task', 'show', `${HOSTILE}?`, '--output', output]),
        await redrive(['dlq', 'ls', '--output', output]),
        await redrive(['dlq', 'show', HOSTILE, '--output', output]),
        await redrive(['dlq', 'redrive', HOSTILE, 'x', '--output', output, '--dry-run']),
        await redrive(['task', 'ls', `--${HOSTILE}`]),
        await redrive(['dlq', 'export', '--history']),
      ]
      for (const { out, err } of results) expect(out + err).not.toMatch(/[^\P{Cc}\n]|\u202e/u)
      expect(results[5]?.out).toContain(output === 'table' ? 'a\\x1b]0;owned\\x07\\x9b31m\\u202eb\\r\\n' : '\\u009b')
      if (output !== 'table') expect(results[5]?.json().id).toBe(HOSTILE)
    },
  )

  it('has no line that the name of a task forged, and no name of any length', async () => {
    await deadLetters([{ id: 'a' }])
    const forged = `x\nredrive: 5 moved.`
    const { err } = await redrive(['dlq', 'redrive', forged, 'y'.repeat(500), '--yes'])
    const lines = err.trimEnd().split('\n')
    expect(lines).toHaveLength(3)
    expect(lines[0]).toBe("'x\\nredrive: 5 moved.' is not in the store.")
    for (const line of lines) expect(line.length).toBeLessThan(150)
    const shown = await redrive(['task', 'show', forged])
    expect(shown.err).toBe("redrive: There is no task 'x\\nredrive: 5 moved.'. To list tasks, run: redrive task ls\n")
  })

  it('is no wider than the terminal', async () => {
    const long = 'a very long kind of error message '.repeat(20)
    await deadLetters([
      { id: '01a1dec8-2ea2-7343-8a49-1777051b8dbe', kind: 'kind-'.repeat(12), code: 'C', message: long },
    ])
    const env = { NO_COLOR: '1' }
    expect((await redrive(['task', 'ls'], { ...TERMINAL, env, columns: 0 })).lines()[0]?.length).toBeGreaterThan(40)
    for (const argv of [
      ['task', 'ls'],
      ['dlq', 'ls'],
      ['task', 'show', '01a1dec8-2ea2-7343-8a49-1777051b8dbe'],
    ]) {
      for (const columns of [80, 40]) {
        const { lines } = await redrive(argv, { ...TERMINAL, env, columns })
        expect(lines().filter(line => line.length > columns)).toEqual([])
      }
    }
    const { out } = await redrive(['dlq', 'ls'], { ...TERMINAL, env, columns: 40 })
    expect(out, 'whole, to be copied').toContain('01a1dec8-2ea2-7343-8a49-1777051b8dbe\n')
  })
})

describe('task ls', () => {
  it('filters by status, kind, category, key and code', async () => {
    await history(async queue => {
      await queue.enqueue(email, { to: 'ok' }, { id: 'sent', category: 'news', key: 'tenant-7' })
      await queue.enqueue(email, { to: 'bad' }, { id: 'bounced' })
      await queue.enqueue(report, null, { id: 'report' })
    })
    const ids = async (...flags: string[]) => {
      const { lines } = await redrive(['task', 'ls', '--output', 'jsonl', ...flags])
      return lines()
        .map(line => JSON.parse(line).id)
        .sort()
    }
    expect(await ids()).toEqual(['bounced', 'report', 'sent'])
    expect(await ids('--status', 'dead')).toEqual(['bounced', 'report'])
    expect(await ids('--kind', 'report')).toEqual(['report'])
    expect(await ids('--category', 'news')).toEqual(['sent'])
    expect(await ids('--key', 'tenant-7')).toEqual(['sent'])
    expect(await ids('--code', 'final', '--kind', 'send-email')).toEqual(['bounced'])
  })

  it('pages by key: the cursor is on stderr for as long as there are more', async () => {
    await inStore(store =>
      store.enqueue(Array.from({ length: 5 }, (_, i) => ({ id: `t ${i}`, kind: 'k', payload: '1' }))),
    )
    const seen: string[] = []
    let after: string[] = []
    for (let page = 0; page < 3; page++) {
      const { json, err } = await redrive(['task', 'ls', '--limit', '2', '--output', 'json', ...after])
      seen.push(...json().map(({ id }: { id: string }) => id))
      const cursor = /--after '(.*)'/.exec(err)?.[1]
      expect(cursor === undefined).toBe(page === 2)
      after = ['--after', cursor ?? '']
    }
    expect(seen).toEqual(['t 4', 't 3', 't 2', 't 1', 't 0'])
  })

  it('refuses a place that no page ended at', async () => {
    await deadLetters([{ id: 'a' }])
    for (const noun of ['task', 'dlq']) {
      const { code, out, err } = await redrive([noun, 'ls', '--after', 'order-42'])
      expect({ code, out }).toEqual({ code: 2, out: '' })
      expect(err).toContain('"order-42"')
    }
  })

  it('has nothing on stdout but an empty list when there are none', async () => {
    await inStore(async () => {})
    expect(await redrive(['task', 'ls'])).toMatchObject({ code: 0, out: '', err: 'No tasks.\n' })
    expect(await redrive(['task', 'ls', '--output', 'json'])).toMatchObject({ code: 0, out: '[]\n' })
    expect(await redrive(['task', 'ls', '--output', 'jsonl'])).toMatchObject({ code: 0, out: '' })
  })
})

describe('task show', () => {
  it('shows new work with no retries, no next retry and no error', async () => {
    await inStore(store => store.enqueue([{ id: 'new', kind: 'k', payload: '{"a":1}' }]))
    const { json } = await redrive(['task', 'show', 'new', '--output', 'json'])
    const none = { retryCount: 0, nextRetryAt: null, errorClass: null, errorMessage: null }
    expect(json()).toMatchObject({ status: 'waiting', payload: { a: 1 }, history: [], ...none })
    const { out } = await redrive(['task', 'show', 'new'])
    expect(out).toMatch(/retry count +0\n +next retry +none\n +error class +none\n +error message +none/)
    expect(out).toContain('No attempts yet.')
  })

  it('shows the retry count, the next retry, the error and the history of one that waits for a retry', async () => {
    await history(queue => queue.enqueue(email, { to: 'bob' }, { id: 'bob' }), 0)
    const { json } = await redrive(['task', 'show', 'bob', '--output', 'json'])
    expect(json()).toMatchObject({ retryCount: 1, errorClass: 'retryable', errorCode: 'ECONNREFUSED', maxAttempts: 3 })
    expect(json().errorMessage).toBe('Error: mail server refuses bob')
    expect(Date.parse(json().nextRetryAt) - Date.parse(json().history[0].endedAt)).toBe(60_000)
    const { out } = await redrive(['task', 'show', 'bob'])
    expect(out).toMatch(/retry count +1 \(1 failed attempt, 3 allowed\)/)
    expect(out).toMatch(/next retry +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(/)
    expect(out).toMatch(/1 {2}\d{4}.* retry +retryable ECONNREFUSED +1m\n +Error: mail server refuses bob/)
  })

  it('counts a deferral as no retry, but shows when it comes again', async () => {
    await history(queue => queue.enqueue(email, { to: 'limited' }, { id: 'limited' }), 0)
    const { json } = await redrive(['task', 'show', 'limited', '--output', 'json'])
    expect(json()).toMatchObject({ retryCount: 0, deferrals: 1, errorClass: 'rate_limited' })
    expect(json().nextRetryAt).not.toBeNull()
  })

  it('shows what ended well: its result, or why it was skipped', async () => {
    await history(async queue => {
      await queue.enqueue(email, { to: 'ok' }, { id: 'sent' })
      await queue.enqueue(email, { to: 'nobody' }, { id: 'skipped' })
    })
    expect((await redrive(['task', 'show', 'sent'])).out).toMatch(/result +\{"sent":true\}/)
    expect((await redrive(['task', 'show', 'skipped'])).out).toMatch(/skipped\n +nobody to send it to/)
  })

  it('shows people no secrets of a payload, and machines all of it', async () => {
    const payload = JSON.stringify({ to: 'ada', password: 'hunter2' })
    await inStore(store => store.enqueue([{ id: 'secret', kind: 'k', payload }]))
    const { out } = await redrive(['task', 'show', 'secret'])
    expect(out).toContain('"to":"ada","password":[redacted]')
    expect(out).not.toContain('hunter2')
    expect((await redrive(['task', 'show', 'secret', '--output', 'json'])).json().payload.password).toBe('hunter2')
  })

  it('cuts a long payload for people, not for machines', async () => {
    const payload = JSON.stringify('x'.repeat(5000))
    await inStore(store => store.enqueue([{ id: 'long', kind: 'k', payload }]))
    expect((await redrive(['task', 'show', 'long'])).out).toContain('… (5002 characters: see --output json)')
    expect((await redrive(['task', 'show', 'long', '--output', 'json'])).json().payload).toHaveLength(5000)
  })

  it('fails for a task that does not exist', async () => {
    await inStore(async () => {})
    expect(await redrive(['task', 'show', 'x'])).toMatchObject({ code: 1, out: '' })
  })
})

describe('dlq show', () => {
  it('says why it is dead, all that happened, and what to try next', async () => {
    await history(queue => queue.enqueue(email, { to: 'bob' }, { id: 'bob' }))
    const { code, out } = await redrive(['dlq', 'show', 'bob', '--store', 'sqlite:.redrive/redrive.db'])
    expect(code).toBe(0)
    expect(out).toContain('All 3 attempts failed.')
    expect(out).toMatch(/retry count +2 \(3 failed attempts, 3 allowed\)/)
    expect(out.match(/mail server refuses bob/g)).toHaveLength(4)
    expect(out).toContain('    redrive dlq redrive --store sqlite:.redrive/redrive.db bob\n')
  })

  it('says where its code failed, on lines that can be copied', async () => {
    const stack = 'at charge (src/charge.ts:10:5)\nat \x1b[31mhandler (src/tasks.ts:3:1)'
    await deadLetters([{ id: 'a', stack }])
    const shown = '\nWhere it last failed\n  at charge (src/charge.ts:10:5)\n  at \\x1b[31mhandler (src/tasks.ts:3:1)\n'
    expect((await redrive(['dlq', 'show', 'a'])).out).toContain(shown)
    expect((await redrive(['task', 'show', 'a'])).out).toContain(shown)
    expect((await redrive(['dlq', 'show', 'a', '--output', 'json'])).json().stack).toBe(stack)
  })

  it('names the traces of its first and its last attempt', async () => {
    const [first, last] = ['0af7651916cd43dd8448eb211c80319c', '4bf92f3577b34da6a3ce929d0e0e4736']
    await deadLetters([{ id: 'a', trace: first }])
    expect((await redrive(['dlq', 'show', 'a'])).out).toMatch(new RegExp(`^ +trace +${first}$`, 'm'))
    await inStore(store => store.redrive(['a'], { who: 'ann' }))
    await deadLetters([{ id: 'a', trace: last }])
    const { out } = await redrive(['dlq', 'show', 'a'])
    expect(out).toMatch(new RegExp(`^ +first trace +${first}\\n +last trace +${last}$`, 'm'))
    expect((await redrive(['dlq', 'show', 'a', '--output', 'json'])).json().traces).toEqual({ first, last })
  })

  it('advises to fix the code where a plain error was thrown', async () => {
    await deadLetters([{ id: 'a', code: 'unknown', stack: 'at charge (src/charge.ts:10:5)' }])
    const { out } = await redrive(['dlq', 'show', 'a'])
    expect(out).toContain('What to do next\n  Its code failed at src/charge.ts:10:5,')
    expect(out).toContain('Fix the code')
  })

  it('names the command for all that are alike, in words that a shell takes', async () => {
    await deadLetters([
      { id: "it's", kind: 'k', code: 'two words' },
      { id: '-b', kind: 'k', code: 'two words' },
    ])
    const { out } = await redrive(['dlq', 'show', '--', '-b'])
    expect(out).toContain('redrive dlq redrive -- -b\n')
    expect(out).toContain("redrive dlq redrive --kind k --code 'two words'\n")
    expect((await redrive(['dlq', 'show', "it's"])).out).toContain(`redrive dlq redrive 'it'"'"'s'\n`)
  })

  it('fails for a task that is not dead', async () => {
    await inStore(store => store.enqueue([{ id: 'new', kind: 'k', payload: '1' }]))
    const { code, err } = await redrive(['dlq', 'show', 'new'])
    expect(code).toBe(1)
    expect(err).toContain("'new' is not dead: it is waiting")
  })
})

describe('dlq redrive', () => {
  const statuses = () => inStore(async store => (await store.count({})) as Record<string, number>)

  it('gives those named fresh attempts, with who and why on record', async () => {
    await deadLetters([{ id: 'a' }, { id: 'b' }, { id: 'c' }])
    const { code, err } = await redrive(['dlq', 'redrive', 'a', 'b', 'a', '--why', 'it is back', '--yes'])
    expect({ code, err }).toEqual({ code: 0, err: '2 moved.\n' })
    expect(await statuses()).toMatchObject({ waiting: 2, dead: 1 })
    const { out } = await redrive(['task', 'show', 'a'])
    expect(out).toMatch(/- {2}\d{4}.* redriven\n +by ada: it is back/)
  })

  it.each([
    [
      ['--kind', 'y'],
      ['b', 'c'],
    ],
    [
      ['--code', 'E1'],
      ['a', 'b'],
    ],
    [['--kind', 'y', '--code', 'E1'], ['b']],
    [['--all'], ['a', 'b', 'c']],
  ])('moves those that match %j', async (flags, moved) => {
    await deadLetters([
      { id: 'a', kind: 'x', code: 'E1' },
      { id: 'b', kind: 'y', code: 'E1' },
      { id: 'c', kind: 'y', code: 'E2' },
    ])
    const { code, json, err } = await redrive(['dlq', 'redrive', ...flags, '--yes', '--output', 'json'])
    expect({ code, first: err.split('\n')[0] }).toEqual({ code: 0, first: `${moved.length} moved.` })
    expect(json()).toMatchObject({ moved: moved.length, isStopped: false, operation: { act: 'redrive' } })
    const waiting = (await redrive(['task', 'ls', '--status', 'waiting', '--output', 'json'])).json()
    expect(waiting.map(({ id }: { id: string }) => id).sort()).toEqual(moved)
    expect(await statuses()).toMatchObject({ waiting: moved.length, dead: 3 - moved.length })
  })

  it('moves any number of them', async () => {
    await deadLetters(Array.from({ length: 1203 }, (_, i) => ({ id: `t${i}` })))
    expect((await redrive(['dlq', 'redrive', '--all', '--yes'])).err).toMatch(/^1203 moved\.$/m)
    expect(await statuses()).toMatchObject({ waiting: 1203, dead: 0 })
  })

  it('says "0 moved" when nothing matches', async () => {
    await deadLetters([{ id: 'a' }])
    expect(await redrive(['dlq', 'redrive', '--kind', 'z'])).toMatchObject({
      code: 0,
      err: "There are no dead letters of the kind 'z', only of: k.\n0 moved.\n",
    })
  })

  it.each([[[]], [['--kind', '']], [['--all', '--kind', 'k']], [['a', '--all']], [['a', '--code', 'E']]])(
    'refuses %j, and moves nothing',
    async argv => {
      await deadLetters([{ id: 'a' }])
      expect(await redrive(['dlq', 'redrive', ...argv, '--yes'])).toMatchObject({ code: 2, out: '' })
      expect(await statuses()).toMatchObject({ dead: 1 })
    },
  )

  it.each(['50', '0/s', '-1/s', '5/d', 'fast'])('refuses a rate of %j', async rate => {
    await deadLetters([{ id: 'a' }])
    expect(await redrive(['dlq', 'redrive', 'a', '--rate', rate, '--yes'])).toMatchObject({ code: 2 })
    expect(await statuses()).toMatchObject({ dead: 1 })
  })

  it('moves nothing in a dry run, and shows what it would', async () => {
    await deadLetters(Array.from({ length: 25 }, (_, i) => ({ id: `t${i}` })))
    const { code, lines, err } = await redrive(['dlq', 'redrive', '--all', '--dry-run'])
    expect({ code, err }).toEqual({
      code: 0,
      err:
        '… and 5 more.\nBy kind: 25 k.\nBy code: 25 E.\nBy age: 25 within an hour.\n' +
        'No worker is running: they would move at once, and wait for one.\n' +
        '25 would be moved. This was a dry run: 0 moved.\n',
    })
    expect(lines()).toHaveLength(1 + 20 * 2)
    expect((await redrive(['dlq', 'redrive', '--all', '--dry-run', '--output', 'jsonl'])).lines()).toHaveLength(25)
    expect(await statuses()).toMatchObject({ dead: 25 })
  })

  it('ends with 3 when only some of those named could be moved, and with 1 when none could', async () => {
    await deadLetters([{ id: 'a' }])
    const some = await redrive(['dlq', 'redrive', 'a', 'b', '--yes'])
    expect(some).toMatchObject({ code: 3, err: "'b' is not in the store.\n1 moved.\n" })
    const none = await redrive(['dlq', 'redrive', 'a', 'b', '--yes'])
    expect(none).toMatchObject({ code: 1 })
    expect(none.err).toContain("'a' is not dead: it is waiting.")
    expect(none.err).toContain('0 moved.')
  })

  it('speaks in whole lines to a terminal that says it has no columns', async () => {
    await deadLetters([{ id: 'a' }])
    const { err } = await redrive(['dlq', 'redrive', 'a', '--yes'], { ...TERMINAL, columns: 0 })
    expect(err).toBe('1 moved.\n')
  })

  it('fails without a terminal and names the flag', async () => {
    await deadLetters([{ id: 'a' }])
    const { code, err } = await redrive(['dlq', 'redrive', '--all'])
    expect(code).toBe(2)
    expect(err).toContain('pass --yes')
    expect(await statuses()).toMatchObject({ dead: 1 })
  })

  it.each([
    ['y', 0, 0],
    ['YES', 0, 0],
    ['n', 2, 1],
    ['', 2, 1],
    ['yellow', 2, 1],
  ])('asks on a terminal, and takes %j for what it is', async (answer, code, dead) => {
    await deadLetters([{ id: 'a' }])
    const questions: string[] = []
    const prompt = async (question: string) => {
      questions.push(question)
      return answer
    }
    expect(await redrive(['dlq', 'redrive', 'a'], { ...TERMINAL, prompt })).toMatchObject({ code })
    expect(questions).toEqual(['Give 1 dead letter fresh attempts? [y/N] '])
    expect(await statuses()).toMatchObject({ dead })
  })
})
