import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deadLetters } from '../../../../test/dead-letters.js'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'
import { condition, partOf } from './where.js'

const partsOf = (...texts: string[]) => {
  const [first = '', ...others] = texts
  return partOf(others.reduce((before, text) => condition(text, before), condition(first)))
}

describe('conditions', () => {
  it.each([
    [['payload.tenant=acme'], '{"tenant":"acme"}'],
    [['payload.tenant='], '{"tenant":""}'],
    [['payload.n=1'], '{"n":"1"}'],
    [['payload.n:=1'], '{"n":1}'],
    [['payload.id:=9007199254740993'], '{"id":9007199254740993}'],
    [['payload.ok:=true', 'payload.gone:=null'], '{"ok":true,"gone":null}'],
    [['payload.tags:=["a"]'], '{"tags":["a"]}'],
    [['payload.url=https://a.b/?c=d:=e'], '{"url":"https://a.b/?c=d:=e"}'],
    [['payload.order.id=1', 'payload.order.to=ada'], '{"order":{"id":"1","to":"ada"}}'],
    [['payload."a.b"."c=\\"d"=x'], '{"a.b":{"c=\\"d":"x"}}'],
    [['payload.__proto__=x'], '{"__proto__":"x"}'],
    [['payload.text=two\nlines'], '{"text":"two\\nlines"}'],
  ])('%j are %s', (texts, expected) => expect(partsOf(...texts)).toBe(expected))

  it.each([
    'tenant=acme',
    'payload=acme',
    'payload.=acme',
    'payload..a=b',
    'payload.tenant',
    'payload.a b=c',
    'payload."a=b',
    'payloads.a=b',
    'payload.n:=one',
    'payload.n:=',
    'payload."\\x"=1',
  ])('%s is refused', text => expect(() => condition(text)).toThrow(/^It must be|is not JSON|is not a name/))

  it.each([[['payload.a=1', 'payload.a=2']], [['payload.a=1', 'payload.a.b=2']], [['payload.a.b=1', 'payload.a=2']]])(
    'two conditions on one field are refused: %j',
    texts => expect(() => partsOf(...texts)).toThrow(/^--where has two conditions on payload\.a/),
  )
})

let folder: StoreFolder
const idsIn = (lines: readonly string[]) => lines.map(line => JSON.parse(line).id).sort()
const statusOf = (id: string) => folder.inStore(async store => (await store.get(id))?.status)

describe('--where', () => {
  beforeEach(async () => {
    folder = storeFolder()
    await folder.inStore(async store => {
      await deadLetters(store, [
        { id: 'a1', payload: '{"tenant":"acme","n":1}' },
        { id: 'b1', payload: '{"tenant":"bolt","n":1}' },
        { id: 'a2', payload: '{"tenant":"acme","n":2}' },
      ])
      await store.enqueue([
        { id: 'w1', kind: 'k', payload: '{"tenant":"acme"}' },
        { id: 'w2', kind: 'k', payload: '{"tenant":"bolt"}' },
      ])
    })
  })
  afterEach(() => folder.remove())

  const acme = ['--where', 'payload.tenant=acme']

  it('selects tasks and dead letters by their payload', async () => {
    const tasks = await folder.redrive(['task', 'ls', ...acme, '--output', 'jsonl'])
    expect(idsIn(tasks.lines())).toEqual(['a1', 'a2', 'w1'])
    const letters = await folder.redrive(['dlq', 'ls', ...acme, '--where', 'payload.n:=2', '--output', 'jsonl'])
    expect(idsIn(letters.lines())).toEqual(['a2'])
    expect((await folder.redrive(['dlq', 'count', ...acme])).out).toBe('2\n')
    const exported = await folder.redrive(['dlq', 'export', ...acme])
    expect(idsIn(exported.lines())).toEqual(['a1', 'a2'])
    expect(await folder.redrive(['task', 'ls', '--where', 'payload.tenant=none'])).toMatchObject({
      code: 0,
      out: '',
      err: 'No tasks match.\n',
    })
  })

  it('says how much a page has searched if there is more, and how to go on', async () => {
    const page = await folder.redrive(['task', 'ls', '--where', 'payload.n:=1', '--limit', '1'])
    expect(page.err).toMatch(
      /^1 found; searched \d of 5 tasks\. Narrow the search by --kind, for example,\nor go on with --after (\S+); for all, pass --all\.\n$/,
    )
    const all = await folder.redrive(['task', 'ls', '--where', 'payload.n:=1', '--all', '--output', 'jsonl'])
    expect([idsIn(all.lines()), all.err]).toEqual([['a1', 'b1'], ''])
  })

  it('redrives, discards and cancels by the payload, as operations that show it', async () => {
    const dryRun = await folder.redrive(['dlq', 'redrive', ...acme, '--dry-run'])
    expect(dryRun.err).toContain('2 would be moved')
    const redriven = await folder.redrive(['dlq', 'redrive', ...acme, '--yes'])
    expect(redriven.err).toContain('2 moved')
    expect(await Promise.all(['a1', 'a2', 'b1'].map(statusOf))).toEqual(['waiting', 'waiting', 'dead'])
    const [id = ''] = /op-\w+/.exec((await folder.redrive(['ops', 'ls'])).out) ?? []
    expect((await folder.redrive(['ops', 'show', id])).out).toContain('where={"tenant":"acme"}')
    const cancelled = await folder.redrive(['task', 'cancel', ...acme, '--yes'])
    expect(cancelled.err).toContain('3 cancelled')
    expect(await statusOf('w2')).toBe('waiting')
    const bolt = ['--where', 'payload.tenant=bolt']
    const discarded = await folder.redrive(['dlq', 'discard', ...bolt, '--why', 'gone', '--yes'])
    expect(discarded.err).toContain('1 discarded')
    expect(await statusOf('b1')).toBe('cancelled')
  })

  it('moves nothing where nothing matches', async () => {
    const none = await folder.redrive(['dlq', 'redrive', '--where', 'payload.tenant=none', '--yes'])
    expect(none.err).toContain('No dead letters match.')
    expect(await statusOf('a1')).toBe('dead')
  })

  it('refuses a condition of another form', async () => {
    const { code, err } = await folder.redrive(['task', 'ls', '--where', 'tenant=acme'])
    expect(code).toBe(2)
    expect(err).toContain("such as 'payload.tenant=acme'")
  })
})
