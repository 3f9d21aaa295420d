import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deadLetters } from '../../../../test/dead-letters.js'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'

let folder: StoreFolder
beforeEach(async () => {
  folder = storeFolder()
  await folder.inStore(async store => {
    await deadLetters(store, [{ id: 'dead' }])
    await store.enqueue([{ id: 'running', kind: 'r', payload: '1' }])
    const rooms = [{ kinds: ['r'] }]
    await store.claim({ worker: 'w', leaseMs: 3_600_000, rooms, limit: 1, isIdle: true })
    await store.enqueue(['a', 'b'].map(id => ({ id, kind: 'k', payload: '1' })))
  })
})
afterEach(() => folder.remove())

const TERMINAL = { isTTY: { stdin: true, stdout: true, stderr: true }, columns: 80, env: { NO_COLOR: '1' } }
const statuses = () => folder.inStore(store => store.count({}))
const task = (...args: string[]) => folder.redrive(['task', ...args])

describe('task complete', () => {
  it('ends tasks as succeeded, with a result, on record, as the history and why tell', async () => {
    const result = '{"paid": true, "cents": 12345678901234567890}'
    const { code, err } = await task('complete', 'a', 'dead', '--result', result, '--why', 'by phone', '--yes')
    expect({ code, err }).toEqual({ code: 0, err: '2 completed.\n' })
    expect((await folder.inStore(store => store.get('a')))?.result).toBe('{"paid":true,"cents":12345678901234567890}')
    expect((await task('show', 'a')).out).toMatch(/completed\n +by ada: by phone/)
    expect((await folder.redrive(['why', 'dead'])).out).toMatch(/^It was completed by hand at .*by ada: by\s+phone\./)
    expect((await folder.redrive(['audit', 'tail'])).out).toMatch(/tasks_completed +ada +by phone/)
    expect(await folder.redrive(['audit', 'verify'])).toMatchObject({ code: 0 })
  })

  it('says what it leaves alone, and ends with 3 if that is some, and with 1 if it is all', async () => {
    const some = await task('complete', 'a', 'running', 'none', '--yes', '--output', 'json')
    expect(some.code).toBe(3)
    expect(some.json()).toMatchObject({
      completed: 1,
      ids: ['a'],
      refused: [{ code: 'running' }, { code: 'not_found' }],
    })
    expect(some.err).toContain("'running' is running, and its handler may yet do the work. Cancel it first")
    expect(await task('complete', 'a', '--yes')).toMatchObject({ code: 1 })
  })

  it('changes nothing in a dry run, and refuses what is no JSON', async () => {
    const dry = await task('complete', 'a', 'running', '--dry-run')
    expect(dry.code).toBe(3)
    expect(dry.err).toMatch(/1 task would be completed\. This was a dry run: 0 completed\.\n$/)
    expect(await task('complete', 'a', '--result', '{oops', '--yes')).toMatchObject({ code: 2 })
    expect(await statuses()).toMatchObject({ waiting: 2, succeeded: 0 })
  })

  it('asks first; without a terminal it names the flag', async () => {
    expect(await task('complete', 'a')).toMatchObject({
      code: 2,
      err: 'redrive: 1 task would be completed. Without a terminal to confirm on, pass --yes. 0 completed.\n',
    })
    const questions: string[] = []
    const prompt = async (question: string) => {
      questions.push(question)
      return 'n'
    }
    expect(await folder.redrive(['task', 'complete', 'a', 'b'], { ...TERMINAL, prompt })).toMatchObject({ code: 2 })
    expect(questions).toEqual(['2 tasks would be completed. Go on? [y/N] '])
    expect(await statuses()).toMatchObject({ waiting: 2 })
  })
})

describe('task fail', () => {
  it('makes dead letters with the reason, which can be redriven', async () => {
    expect(await task('fail', 'a', '--why', 'the shop is closed', '--yes')).toMatchObject({
      code: 0,
      err: '1 failed.\n',
    })
    const letters = await folder.redrive(['dlq', 'ls'])
    expect(letters.out).toMatch(/a +k +failed_by_hand/)
    expect(letters.out).toContain('the shop is closed')
    const why = await folder.redrive(['why', 'a'])
    expect(why.out).toMatch(/It is dead\. It was failed by hand at .*by ada: the\s+shop is closed\./)
    expect(why.out).toContain('redrive dlq redrive a')
    expect(await folder.redrive(['dlq', 'redrive', 'a', '--yes'])).toMatchObject({ code: 0 })
    expect(await statuses()).toMatchObject({ waiting: 2, dead: 1 })
  })

  it('needs a reason', async () => {
    expect(await task('fail', 'a', '--yes')).toMatchObject({ code: 2 })
    expect(await task('fail', 'dead', '--why', 'x', '--yes')).toMatchObject({ code: 1 })
  })
})

describe('task delete', () => {
  it('deletes named tasks, and says why it leaves some alone', async () => {
    const { code, err } = await task('delete', 'a', 'dead', 'running', '--yes', '--why', 'asked to be forgotten')
    expect(code).toBe(3)
    expect(err).toMatch(/^'running' is running, .*\n2 deleted\.\n$/)
    expect(await statuses()).toMatchObject({ waiting: 1, running: 1, dead: 0, cancelled: 0 })
    expect((await folder.redrive(['audit', 'tail'])).out).toMatch(/tasks_deleted +ada +asked to be forgotten/)
    expect(await task('show', 'a')).toMatchObject({ code: 1 })
  })

  it('says in a dry run how many a filter finds, and which it leaves alone', async () => {
    const { code, err } = await task('delete', '--all', '--dry-run')
    expect({ code, err }).toEqual({
      code: 0,
      err: `1 task left alone: running.
3 tasks would be deleted for good. 2 of them wait, and would never run. This was a dry run: 0 deleted.
`,
    })
    expect((await task('delete', '--all', '--dry-run', '--output', 'json')).json()).toMatchObject({ wouldDelete: 3 })
    expect((await task('delete', 'a', 'none', '--dry-run')).err).toMatch(/'none' is not in the store\.\n1 task would/)
    expect(await statuses()).toMatchObject({ waiting: 2, dead: 1 })
  })

  it('deletes what a filter finds, and asks first', async () => {
    expect((await task('delete', '--kind', 'k', '--status', 'waiting')).err).toBe(
      'redrive: This would delete 2 tasks for good, with their history. 2 of them wait, and would never run. Without a terminal to confirm on, pass --yes. 0 deleted.\n',
    )
    const done = await task('delete', '--kind', 'k', '--status', 'waiting', '--yes', '--output', 'json')
    expect([done.code, done.json()]).toEqual([0, { deleted: 2, refused: [], isStopped: false }])
    expect(await statuses()).toMatchObject({ waiting: 0, running: 1, dead: 1 })
  })

  it('takes no empty filter for everything, and no two ways to select', async () => {
    expect((await task('delete', '--yes')).err).toContain('Which tasks?')
    expect((await task('delete', 'a', '--all', '--yes')).err).toContain('only one of them')
    expect(await task('delete', '--status', 'running', '--yes')).toMatchObject({ code: 2 })
  })
})
