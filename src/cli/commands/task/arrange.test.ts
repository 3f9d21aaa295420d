import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'

let folder: StoreFolder
beforeEach(async () => {
  folder = await storeFolder()
})
afterEach(() => folder.remove())

const FAR = 4_000_000_000_000

const get = (id: string) => folder.inStore(store => store.get(id))

/** Tasks that wait until the next century, one that is due, and one that runs. */
async function enqueued(): Promise<void> {
  await folder.inStore(async store => {
    await store.enqueue([{ id: 'running', kind: 'k', payload: '{}' }])
    await store.claim({ worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['k'] }], limit: 1, isIdle: true })
    await store.enqueue([
      { id: 'a', kind: 'k', payload: '{"tenant":"acme"}', runAt: FAR },
      { id: 'b', kind: 'k', payload: '{}', runAt: FAR },
      { id: 'due', kind: 'k', payload: '{}' },
    ])
  })
}

describe('redrive task promote', () => {
  it('makes named tasks due at once, on record, and an undo puts them back', async () => {
    await enqueued()
    const promoted = await folder.redrive(['task', 'promote', 'a', '--why', 'now', '--output', 'json'])
    expect(promoted.code).toBe(0)
    expect(promoted.json()).toMatchObject({ promoted: 1, isStopped: false, operation: { act: 'promote', why: 'now' } })
    expect((await get('a'))?.nextAttemptAt).toBeLessThan(FAR)
    expect((await folder.redrive(['task', 'show', 'a'])).out).toMatch(/promoted[\s\S]*by .*: now/)
    const { id } = promoted.json().operation
    expect((await folder.redrive(['ops', 'show', id])).out).toContain('1 promoted.')
    expect(await folder.redrive(['ops', 'undo', id, '--yes'])).toMatchObject({ code: 0, err: '1 put back.\n' })
    expect((await get('a'))?.nextAttemptAt).toBe(FAR)
  })

  it('says in a dry run what a filter would promote, and what it would leave alone and why', async () => {
    await enqueued()
    const { code, err } = await folder.redrive(['task', 'promote', '--kind', 'k', '--dry-run'])
    expect(err).toContain('1 left alone: they are due already.\n')
    expect(err).toContain('1 left alone: they are running.\n')
    expect(err).toContain('2 tasks would be promoted. This was a dry run: 0 promoted.\n')
    expect(code).toBe(3)
    expect((await get('a'))?.nextAttemptAt).toBe(FAR)
  })

  it('asks before it promotes by a filter, and finds tasks by their payload', async () => {
    await enqueued()
    const unasked = await folder.redrive(['task', 'promote', '--where', 'payload.tenant=acme'])
    expect(unasked.code).toBe(2)
    expect(unasked.err).toContain('1 task would be promoted. Without a terminal to confirm on, pass --yes. 0 promoted.')
    const { code, err } = await folder.redrive(['task', 'promote', '--where', 'payload.tenant=acme', '--yes'])
    expect(code).toBe(0)
    expect(err).toMatch(/^1 promoted\.\nTo put back those that have not run since: redrive ops undo op-\w+/)
    expect((await get('b'))?.nextAttemptAt).toBe(FAR)
  })

  it('says so of named tasks that do not exist, and of filters that match nothing', async () => {
    await enqueued()
    const named = await folder.redrive(['task', 'promote', 'a', 'absent', 'running'])
    expect(named.code).toBe(3)
    expect(named.err).toContain('1 left alone: they have ended, or do not exist.\n')
    expect(named.err).toContain('1 promoted.\n')
    expect(named.err).toContain('1 left alone: they are running.\n')
    const none = await folder.redrive(['task', 'promote', '--kind', 'other', '--yes'])
    expect(none).toMatchObject({ code: 0 })
    expect(none.err).toContain("There are no tasks of the kind 'other', only of: k.")
    expect(none.err).toContain('0 promoted.\n')
    expect((await folder.redrive(['task', 'promote'])).code).toBe(2)
  })
})

describe('redrive task reschedule', () => {
  it('gives tasks another time, which `why` then explains', async () => {
    await enqueued()
    const to = ['--at', '2090-03-01T08:00Z', '--why', 'maintenance']
    const { code, err } = await folder.redrive(['task', 'reschedule', 'a', 'due', ...to])
    expect([code, err.split('\n')[0]]).toEqual([0, '2 rescheduled.'])
    expect((await get('due'))?.nextAttemptAt).toBe(Date.parse('2090-03-01T08:00Z'))
    const why = (await folder.redrive(['why', 'due', '--output', 'json'])).json()
    expect(why.causes[0]).toMatchObject({ code: 'rescheduled', facts: { why: 'maintenance' } })
    expect(why.answer).toMatch(/^It is not due until .+: it was rescheduled by .+: maintenance\.$/)
  })

  it('counts --in from now, and needs a time', async () => {
    await enqueued()
    const before = Date.now()
    expect((await folder.redrive(['task', 'reschedule', 'due', '--in', '1h'])).code).toBe(0)
    const at = (await get('due'))?.nextAttemptAt ?? 0
    expect(at - before).toBeGreaterThanOrEqual(3_600_000 - 1)
    expect((await folder.redrive(['task', 'reschedule', 'due'])).err).toContain('Pass the new time: --at or --in.')
    expect((await folder.redrive(['task', 'reschedule', 'due', '--at', 'soon'])).code).toBe(2)
  })
})

describe('redrive task prioritize', () => {
  it('gives tasks another priority, and leaves ordered lanes alone', async () => {
    await enqueued()
    await folder.inStore(async store => {
      await store.limit({ kind: 'ordered' }, { isOrdered: true })
      await store.enqueue([{ id: 'o', kind: 'ordered', key: 't', payload: '{}' }])
    })
    const { code, err } = await folder.redrive(['task', 'prioritize', 'b', 'due', 'o', '--priority', '-2.5'])
    expect(code).toBe(3)
    expect(err).toContain('2 prioritized.\n1 left alone: their lane is ordered, and keeps its order.\n')
    expect((await get('b'))?.priority).toBe(-2.5)
    expect((await get('o'))?.priority).toBe(0)
    expect((await folder.redrive(['task', 'prioritize', 'b', '--priority', 'high'])).code).toBe(2)
    expect((await folder.redrive(['task', 'prioritize', 'b'])).code).toBe(2)
  })
})
