import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deadLetters, type Letter } from '../../../../test/dead-letters.js'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'

let folder: StoreFolder
beforeEach(() => {
  folder = storeFolder()
})
afterEach(() => folder.remove())

const SETTINGS = {
  failureBudget: 1,
  stageBudgets: {},
  checkInterval: 100,
  budgetWindow: undefined,
  completedFrom: 1,
  partialFrom: 0,
  maxUnfinished: 100,
  concurrency: {},
}

const letters = (...given: Letter[]) => folder.inStore(store => deadLetters(store, given))
const many = (count: number) => letters(...Array.from({ length: count }, (_, i) => ({ id: `t${i}` })))

describe('dlq ls', () => {
  it('shows a page, and says on stderr how many there are and how to see the rest', async () => {
    await many(1203)
    const { code, lines, err } = await folder.redrive(['dlq', 'ls', '--output', 'jsonl'])
    expect(code).toBe(0)
    expect(lines()).toHaveLength(50)
    expect(err).toMatch(/^50 of 1 203\. For the next ones, pass --after \S+; for all, --all\.\n$/)
  })

  it.each(['jsonl', 'json', 'table'])('with --all shows all of them, in one list: %s', async output => {
    await many(1203)
    const { code, out, err, lines } = await folder.redrive(['dlq', 'ls', '--all', '--output', output])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    if (output === 'json') expect(new Set(JSON.parse(out).map(({ id }: { id: string }) => id)).size).toBe(1203)
    if (output === 'jsonl') expect(lines().map(line => JSON.parse(line).kind)).toEqual(Array(1203).fill('k'))
    // A header, and two lines for each.
    if (output === 'table') expect(lines()).toHaveLength(1 + 2 * 1203)
    if (output === 'table') expect(out.match(/REASON/g)).toHaveLength(1)
  })

  it('with --all writes the same JSON as a single page', async () => {
    await letters({ id: 'a' }, { id: 'b' })
    const page = await folder.redrive(['dlq', 'ls', '--output', 'json'])
    expect((await folder.redrive(['dlq', 'ls', '--all', '--output', 'json'])).out).toBe(page.out)
    await folder.redrive(['dlq', 'redrive', '--all', '--yes'])
    expect(await folder.redrive(['dlq', 'ls', '--all', '--output', 'json'])).toMatchObject({ out: '[]\n' })
    expect(await folder.redrive(['dlq', 'ls', '--all'])).toMatchObject({ out: '', err: 'No dead letters.\n' })
  })

  it('waits for a reader that is slower', async () => {
    await many(1203)
    let [written, drains, isFull] = [0, 0, false]
    const stdout = {
      write: (text: string) => {
        if (isFull) throw new Error('written while there was no room')
        written += text.split('\n').length - 1
        isFull = true
        return false
      },
      once: (_: 'drain', callback: () => void) =>
        setImmediate(() => {
          drains++
          isFull = false
          callback()
        }),
    }
    const { code } = await folder.redrive(['dlq', 'ls', '--all', '--output', 'jsonl'], { stdout })
    expect({ code, written, drains }).toEqual({ code: 0, written: 1203, drains: 3 })
  })

  it('takes --all or a page, not both', async () => {
    await letters({ id: 'a' })
    const { code, err } = await folder.redrive(['dlq', 'ls', '--all', '--limit', '3'])
    expect(code).toBe(2)
    expect(err).toContain("option '--all' cannot be used with option '--limit <n>'")
  })
})

describe('dlq count', () => {
  beforeEach(() =>
    letters(
      { id: 'a', kind: 'x', code: 'E1' },
      { id: 'b', kind: 'y', code: 'E1' },
      { id: 'c', kind: 'y', code: 'E1' },
      { id: 'd', kind: 'y', code: 'E2', key: 'tenant-7' },
    ),
  )

  it('prints the number alone', async () => {
    expect(await folder.redrive(['dlq', 'count'])).toMatchObject({ code: 0, out: '4\n', err: '' })
    expect(await folder.redrive(['dlq', 'count', '--kind', 'y', '--code', 'E1'])).toMatchObject({ out: '2\n' })
    expect((await folder.redrive(['dlq', 'count', '--output', 'json'])).json()).toEqual({ count: 4 })
  })

  it('counts by fields, the largest number first', async () => {
    const { lines } = await folder.redrive(['dlq', 'count', '--by', 'kind,code'])
    expect(lines()).toEqual(['COUNT  KIND  CODE', '2      y     E1', '1      x     E1', '1      y     E2'])
    const { json } = await folder.redrive(['dlq', 'count', '--by', 'key', '--output', 'json'])
    expect(json()).toEqual([
      { key: '', count: 3 },
      { key: 'tenant-7', count: 1 },
    ])
  })

  it.each(['', 'nope', 'kind,', 'errorCode', 'constructor'])('refuses to count by %j', async by => {
    const { code, err } = await folder.redrive(['dlq', 'count', '--by', by])
    expect(code).toBe(2)
    expect(err).toContain('kind, category, key, code, reason')
  })
})

describe('dlq discard', () => {
  const statuses = () => folder.inStore(store => store.count({}))

  it('makes them cancelled, with who and why on record', async () => {
    await letters({ id: 'a' }, { id: 'b' }, { id: 'c' })
    const { code, err } = await folder.redrive(['dlq', 'discard', 'a', 'b', '--why', 'refunded by hand', '--yes'])
    expect({ code, err }).toEqual({ code: 0, err: '2 discarded.\n' })
    expect(await statuses()).toMatchObject({ dead: 1, cancelled: 2 })
    const { out } = await folder.redrive(['task', 'show', 'a'])
    expect(out).toMatch(/reason +refunded by hand/)
    expect(out).toMatch(/retry count +0 \(1 failed attempt\)/)
    expect(out).toMatch(/- {2}\d{4}.* discarded\n +by ada: refunded by hand/)
    const audit = await folder.redrive(['audit', 'tail', '--output', 'jsonl'])
    expect(audit.json()).toMatchObject({ event_type: 'tasks_discarded', who: 'ada', why: 'refunded by hand', count: 2 })
  })

  it('discards any number of those that match, and no others', async () => {
    await letters({ id: 'other', kind: 'x' })
    await many(1203)
    const { err } = await folder.redrive(['dlq', 'discard', '--kind', 'k', '--why', 'old', '--yes'])
    expect(err).toMatch(/^1203 discarded\.\nTo put them back, run: redrive ops undo op-[0-9a-f]{8}\n$/)
    expect(await statuses()).toMatchObject({ dead: 1, cancelled: 1203 })
  })

  it.each([[['a']], [['--why', '', 'a']], [['--why', 'x']], [['--why', 'x', '--all', 'a']]])(
    'refuses %j, and discards nothing',
    async argv => {
      await letters({ id: 'a' })
      expect(await folder.redrive(['dlq', 'discard', '--yes', ...argv])).toMatchObject({ code: 2, out: '' })
      expect(await statuses()).toMatchObject({ dead: 1 })
    },
  )

  it('asks first; without a terminal it names the flag', async () => {
    await letters({ id: 'a' })
    const argv = ['dlq', 'discard', '--all', '--why', 'old']
    expect(await folder.redrive(argv)).toMatchObject({ code: 2, err: expect.stringContaining('pass --yes') })
    const questions: string[] = []
    const prompt = async (question: string) => {
      questions.push(question)
      return 'no'
    }
    const isTTY = { stdin: true, stdout: true, stderr: true }
    expect(await folder.redrive(argv, { prompt, isTTY })).toMatchObject({ code: 2 })
    expect(questions).toEqual(['Discard 1 dead letter for good? [y/N] '])
    expect(await statuses()).toMatchObject({ dead: 1 })
  })

  it('discards nothing in a dry run, and shows what it would', async () => {
    await letters({ id: 'a' })
    const { out, err } = await folder.redrive(['dlq', 'discard', '--all', '--why', 'old', '--dry-run'])
    expect(out).toContain('a ')
    expect(err).toBe('1 would be discarded. This was a dry run: 0 discarded.\n')
    expect(await statuses()).toMatchObject({ dead: 1 })
  })

  it('leaves dead items of pipelines alone, and says so', async () => {
    await folder.inStore(async store => {
      await deadLetters(store, [{ id: 'plain' }])
      const reader = { name: 'w', leaseMs: 60_000 }
      await store.runs.open({ id: 'r', pipeline: 'p', version: '1', stages: ['s'], settings: SETTINGS, reader })
      const chunk = { reader: 'w', leaseMs: 60_000, position: 0, items: [{ payload: '1' }], isEnd: true }
      await store.runs.take('r', chunk)
      const rooms = [{ kinds: ['pipeline:p'] }]
      const { tasks } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 1, isIdle: true })
      const outcome = { type: 'dead', reason: 'final_error' } as const
      await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome })))
    })
    const { err } = await folder.redrive(['dlq', 'discard', '--all', '--why', 'old', '--yes'])
    expect(err).toMatch(
      /^1 dead item of a pipeline is left alone\.\n1 discarded\.\n1 left alone: they are items of a pipeline, which are reprocessed\. See: redrive pipeline ls\n/,
    )
    expect(await statuses()).toMatchObject({ dead: 1, cancelled: 1 })
    const { json } = await folder.redrive(['dlq', 'ls', '--output', 'json'])
    const named = await folder.redrive(['dlq', 'discard', json()[0].id, '--why', 'old', '--yes'])
    expect(named).toMatchObject({ code: 1, err: expect.stringContaining('is an item of a pipeline') })
  })
})
