import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deadLetters } from '../../../../test/dead-letters.js'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'
import type { OperationSettings } from '../../../store/internal.js'

let folder: StoreFolder
beforeEach(async () => {
  folder = await storeFolder()
})
afterEach(() => folder.remove())

const ids = Array.from({ length: 5 }, (_, n) => `a${n}`)

/** Redrives all dead letters, and returns the id of the operation. */
async function redriven(): Promise<string> {
  await folder.inStore(store =>
    deadLetters(
      store,
      ids.map(id => ({ id })),
    ),
  )
  const { json } = await folder.redrive(['dlq', 'redrive', '--all', '--yes', '--why', 'fixed', '--output', 'json'])
  expect(json()).toMatchObject({ moved: 5, isStopped: false, operation: { act: 'redrive', status: 'settling' } })
  return json().operation.id
}

/** Creates a redrive of five dead letters that nobody carries out. */
async function created(settings: OperationSettings = {}): Promise<string> {
  return folder.inStore(async store => {
    await deadLetters(
      store,
      ids.map(id => ({ id })),
    )
    const set = { filter: {}, until: await store.now() }
    return (await store.operations.create({ act: 'redrive', set, by: { who: 'ann' }, settings })).id
  })
}

describe('redrive ops', () => {
  it('lists and shows an operation, with what became of its members', async () => {
    const id = await redriven()
    const list = await folder.redrive(['ops', 'ls'])
    expect(list.out).toContain(id)
    const show = await folder.redrive(['ops', 'show', id])
    expect(show.out).toContain('fixed')
    expect(show.out).toContain('5 moved: 5 under way.')
    expect((await folder.redrive(['ops', 'show', 'op-none'])).code).toBe(1)
  })

  it('says in a dry run how a redrive would go, and that a canary needs a worker', async () => {
    await created()
    const { err } = await folder.redrive(['dlq', 'redrive', '--all', '--canary', '4', '--rate', '10/s', '--dry-run'])
    expect(err).toContain('No worker is running, and a canary needs one: start one first.\n')
    expect(err).toContain('5 would be moved, 4 first: if at most 0 of them fail, the others at up to 10/s too.')
  })

  it('puts back what has not run, and says so', async () => {
    const id = await redriven()
    const undo = await folder.redrive(['ops', 'undo', id, '--yes', '--why', 'too early'])
    expect(undo).toMatchObject({ code: 0, err: '5 put back.\n' })
    const { json } = await folder.redrive(['dlq', 'ls', '--output', 'json'])
    expect(json()).toHaveLength(5)
    const again = await folder.redrive(['ops', 'undo', id, '--yes'])
    expect(again.err).toBe('Nothing to put back: all 5 were put back before.\n')
    const { out } = await folder.redrive(['ops', 'show', id])
    expect(out).toMatch(/^op-\w+ {2}redrive {2}done$/m)
    expect(out).toMatch(/^ {2}put back +5 by .+: too early$/m)
    const list = (await folder.redrive(['ops', 'ls'])).out
    expect(list).toMatch(/^ {2}5 put back by .+: too early$/m)
  })

  it('stops an operation, and continues it', async () => {
    await folder.inStore(store =>
      deadLetters(
        store,
        ids.map(id => ({ id })),
      ),
    )
    const id = await folder.inStore(async store => {
      const set = { filter: {}, until: await store.now() }
      return (await store.operations.create({ act: 'redrive', set, by: { who: 'ann' } })).id
    })
    expect(await folder.redrive(['ops', 'stop', id])).toMatchObject({ code: 0, err: 'Stopped. 0 moved.\n' })
    const { code, err } = await folder.redrive(['ops', 'continue', id])
    expect(code).toBe(0)
    expect(err).toMatch(/^5 moved\.\n/)
  })

  it('says who stopped an operation, and undoes one that is under way after it was stopped', async () => {
    const id = await created()
    const stopped = await folder.redrive(['ops', 'stop', id, '--why', 'wrong filter'])
    expect(stopped.code).toBe(0)
    const shown = await folder.redrive(['ops', 'show', id])
    expect(shown.out).toMatch(/^op-\w+ {2}redrive {2}stopped by .+: wrong filter$/m)
    const again = await folder.redrive(['ops', 'stop', id, '--why', 'once more'])
    expect(again.err).toMatch(/^It was stopped already: Stopped by .+: wrong filter\.?\n$/)
    const next = await created()
    const undo = await folder.redrive(['ops', 'undo', next, '--yes'])
    expect(undo.err).toBe(`${next} was running. Stopped it.\n0 put back.\n`)
  })

  it('says that an operation is done already, without a bus or a source', async () => {
    const id = await folder.inStore(async store => {
      const set = { queue: 'q.failed', bus: 'nats://host:4222', route: { queue: 'q', type: null }, count: 1 }
      const { id } = await store.operations.create({ act: 'requeue', set, by: { who: 'ann' } })
      const taken = await store.operations.take(id, 'd', 1000)
      const { progress } = taken?.operation ?? expect.fail()
      await store.operations.step(id, taken?.token ?? '', { leaseMs: 1000, status: 'done', movedOutside: 1, progress })
      return id
    })
    expect(await folder.redrive(['ops', 'continue', id])).toMatchObject({ code: 0, err: 'It is done already.\n' })
  })

  it('shows how far an operation is, and that nobody carries it out', async () => {
    const id = await created({ canary: 3, stopAbove: 0.2, perSecond: 50 })
    const { out } = await folder.redrive(['ops', 'show', id])
    expect(out).toMatch(/^ {2}moved {7}0 of 5$/m)
    expect(out).toMatch(/^ {2}canary {6}3\n {2}stop above {2}20 %\n {2}rate {8}50\/s$/m)
    const nobody = 'Nobody carries it out: no worker is running.'
    expect(out).toContain(nobody)
    const listed = await folder.redrive(['ops', 'ls', '--output', 'json'])
    expect(listed.json()).toMatchObject([{ id, note: expect.stringContaining(nobody) }])
    await folder.inStore(store => store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: ['k'] }))
    expect((await folder.redrive(['ops', 'show', id])).out).not.toContain(nobody)
    expect(await folder.redrive(['ops', 'stop', id])).toMatchObject({ code: 0 })
    expect(await folder.redrive(['ops', 'continue', id, '--detach'])).toMatchObject({ code: 0 })
  })

  it('moves no more than --limit', async () => {
    await folder.inStore(store =>
      deadLetters(
        store,
        ids.map(id => ({ id })),
      ),
    )
    const { json } = await folder.redrive(['dlq', 'redrive', '--all', '--limit', '2', '--yes', '--output', 'json'])
    expect(json()).toMatchObject({ moved: 2, operation: { settings: { limit: 2 } } })
    expect(await folder.inStore(store => store.count({}))).toMatchObject({ waiting: 2, dead: 3 })
  })

  it('creates none where nothing matches, and names the kinds that there are', async () => {
    await folder.inStore(store => deadLetters(store, [{ id: 'a', kind: 'mail' }]))
    const { code, err } = await folder.redrive(['dlq', 'redrive', '--kind', 'mial', '--yes'])
    expect([code, err]).toEqual([0, "There are no dead letters of the kind 'mial', only of: mail.\n0 moved.\n"])
    const discarded = await folder.redrive(['dlq', 'discard', '--code', 'E_NONE', '--why', 'x', '--yes'])
    expect(discarded.err).toBe('No dead letters match.\n0 discarded.\n')
    const cancelled = await folder.redrive(['task', 'cancel', '--kind', 'mial', '--yes'])
    expect(cancelled.err).toBe("There are no tasks of the kind 'mial', only of: mail.\n0 cancelled.\n")
    expect((await folder.redrive(['ops', 'ls'])).err).toBe('No operations.\n')
  })

  it('leaves it to the workers with --detach, and refuses if there are none', async () => {
    await folder.inStore(store => deadLetters(store, [{ id: 'a' }]))
    const refused = await folder.redrive(['dlq', 'redrive', '--all', '--yes', '--detach'])
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('No worker is running') })
    await folder.inStore(store => store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: ['k'] }))
    expect(await folder.redrive(['dlq', 'redrive', '--all', '--yes', '--detach'])).toMatchObject({ code: 0 })
    const open = await folder.redrive(['ops', 'ls', '--open', '--output', 'json'])
    expect(open.json()).toMatchObject([{ status: 'running', moved: 0 }])
  })
})

it('a dry run shows the plan: kinds, ages, and who would be left alone', async () => {
  await folder.inStore(async store => {
    await deadLetters(store, [{ id: 'a' }, { id: 'b', kind: 'l' }])
    await store.pause({ kind: 'l' }, { isPaused: true })
  })
  const { err } = await folder.redrive(['dlq', 'redrive', '--all', '--dry-run'])
  expect(err).toContain('By kind: 1 k, 1 l.')
  expect(err).toContain('By age: 2 within an hour.')
  expect(err).toContain('1 left alone: their lane is paused')
  expect(err).toContain('1 would be moved. This was a dry run: 0 moved.')
})

it('says why nothing was moved, what to do, and fails, if no live worker runs the kind of the dead letters', async () => {
  await folder.inStore(async store => {
    await deadLetters(store, [
      { id: 'a', kind: 'gone' },
      { id: 'b', kind: 'gone' },
      { id: 'c', kind: 'k' },
    ])
    await store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: ['k'] })
  })
  const why =
    '2 left alone: no live worker runs their kind. Start such a worker, and redrive them again. See: redrive worker ls'
  const gone = ['dlq', 'redrive', '--kind', 'gone']
  for (const flags of [['--dry-run'], ['--yes'], ['--yes', '--detach'], []])
    expect(await folder.redrive([...gone, ...flags])).toMatchObject({ code: 1, err: expect.stringContaining(why) })
  const all = ['dlq', 'redrive', '--all']
  for (const flags of [['--dry-run'], ['--yes']])
    expect(await folder.redrive([...all, ...flags])).toMatchObject({ code: 3, err: expect.stringContaining(why) })
  expect(await folder.inStore(store => store.count({}))).toMatchObject({ waiting: 1, dead: 2 })
})

it('exits as the act would after a dry run of a discard and of a cancellation', async () => {
  await folder.inStore(store => deadLetters(store, [{ id: 'a' }, { id: 'i', kind: 'pipeline:p', key: 'r' }]))
  const discard = (...flags: string[]) => folder.redrive(['dlq', 'discard', '--why', 'gone', '--all', ...flags])
  expect((await discard('--dry-run')).code).toBe(3)
  expect((await discard('--yes')).code).toBe(3)
  expect((await discard('--dry-run')).code).toBe(1)
  const cancel = (...flags: string[]) => folder.redrive(['task', 'cancel', 'a', 'none', ...flags])
  expect((await cancel('--dry-run')).code).toBe(1)
  expect((await cancel('--yes')).code).toBe(1)
})

it('leaves payloads alone that no longer fit the tasks of the project', async () => {
  const task = JSON.stringify(new URL('../../../task/index.ts', import.meta.url).pathname)
  const tasks = `
    import { defineTask } from ${task}
    const validate = (value: any) => ('to' in value ? { value } : { issues: [{ message: 'Expected text', path: ['to'] }] })
    const payload = { '~standard': { version: 1, vendor: 'test', validate } }
    export const mail = defineTask('mail', { payload, handler: () => {} })`
  writeFileSync(join(folder.path, 'tasks.ts'), tasks)
  await folder.inStore(store =>
    deadLetters(store, [
      { id: 'good', kind: 'mail', payload: '{"to":"ada"}' },
      { id: 'old', kind: 'mail', payload: '{"address":"ada"}' },
    ]),
  )
  const plan = await folder.redrive(['dlq', 'redrive', '--kind', 'mail', '--dry-run', '--tasks', 'tasks.ts'])
  expect(plan.err).toContain('1 left alone: their payload does not fit the schema of their task.\n')
  expect(plan.err).toContain('For example, old: to: Expected text\n')
  writeFileSync(join(folder.path, 'redrive.config.ts'), "export default { tasks: './tasks.ts' }")
  const moved = await folder.redrive(['dlq', 'redrive', '--kind', 'mail', '--yes'])
  expect(moved.err).toContain('1 moved.\n1 left alone: their payload does not fit the schema of their task.\n')
  expect(await folder.inStore(store => store.count({}))).toMatchObject({ waiting: 1, dead: 1 })
  const edit = (...payload: string[]) => folder.redrive(['dlq', 'edit', 'old', ...payload])
  const refused = "redrive: The payload is invalid for the task 'mail': to: Expected text\n"
  expect(await edit('--payload', '{"at":"ada"}')).toMatchObject({ code: 1, err: refused })
  expect((await folder.redrive(['task', 'edit', 'good', '--payload', '{}'])).err).toBe(refused)
  writeFileSync(join(folder.path, 'long.json'), JSON.stringify({ to: 'x'.repeat(2 ** 20) }))
  expect((await edit('--file', join(folder.path, 'long.json'))).err).toContain(
    'it is 1048585 characters long, and 1048576 are allowed',
  )
  expect(await folder.inStore(store => store.payloads(['good', 'old']))).toEqual(['{"to":"ada"}', '{"address":"ada"}'])
  expect(await edit('--payload', '{"to":"ada"}')).toMatchObject({ code: 0, err: 'Edited and redriven.\n' })
})

it('edits the payload of a dead letter and redrives it; the original stays on record', async () => {
  await folder.inStore(store => deadLetters(store, [{ id: 'a' }]))
  const edit = ['dlq', 'edit', 'a', '--payload', '{ "to": "ada" }', '--why', 'typo']
  expect(await folder.redrive(edit)).toMatchObject({ code: 0, err: 'Edited and redriven.\n' })
  const task = await folder.inStore(store => store.get('a'))
  expect(task).toMatchObject({ status: 'waiting', payload: '{"to":"ada"}' })
  const rows = await folder.inStore(store => store.ledger('a'))
  expect(rows.at(-2)).toMatchObject({ outcome: 'edited', reason: 'typo', before: { payload: '{}' } })
  expect((await folder.redrive(['task', 'show', 'a'])).out).toMatch(/edited\n +by ada: typo\n +payload before: \{\}\n/)
  expect(await folder.redrive(['dlq', 'edit', 'a', '--payload', '{}'])).toMatchObject({
    code: 1,
    err: "redrive: The task 'a' is not dead: it waits. To edit it, run: redrive task edit a\n",
  })
  expect(await folder.redrive(['task', 'edit', 'a', '--payload', '1'])).toMatchObject({ code: 0, err: 'Edited.\n' })
  expect(await folder.redrive(['task', 'edit', 'a', '--payload', '{'])).toMatchObject({ code: 2 })
})

describe('numbers that JavaScript would write in another way', () => {
  const numbers = '"id":9007199254740993,"big":1e400,"one":1.0,"zero":-0'

  it('are shown and exported as they are stored', async () => {
    await folder.inStore(async store => {
      await deadLetters(store, [{ id: 'a', payload: `{ ${numbers} }` }])
      await store.audit.append([`{"event_type":"own",${numbers}}`, '9007199254740993'])
    })
    for (const command of [
      'task show a',
      'dlq show a',
      'dlq ls',
      'task ls',
      'dlq redrive --all --dry-run',
      'dlq discard a --why x --dry-run',
    ]) {
      const { out } = await folder.redrive([...command.split(' '), '--output', 'jsonl'])
      expect(out, command).toContain(`"payload":{${numbers}}`)
    }
    expect((await folder.redrive(['dlq', 'export', '--history'])).out).toContain(`"payload":{${numbers}}`)
    expect((await folder.redrive(['dlq', 'show', 'a'])).out.replace(/\s/g, '')).toContain(`{${numbers}}`)
    const json = await folder.redrive(['dlq', 'show', 'a', '--output', 'json'])
    expect(json.out).toContain(
      `  "payload": {\n    ${numbers.replaceAll(':', ': ').replaceAll(',', ',\n    ')}\n  },\n`,
    )
    const audit = await folder.redrive(['audit', 'tail', '--output', 'jsonl'])
    expect(audit.lines()).toEqual([`{"event_type":"own",${numbers}}`, '{"record":9007199254740993}'])
    const table = await folder.redrive(['audit', 'tail'])
    expect(table.out).toContain('id=9007199254740993 big=1e400 one=1.0 zero=-0')
  })

  it('are kept by edits and patches', async () => {
    await folder.inStore(store => deadLetters(store, [{ id: 'a' }, { id: 'b', payload: `{${numbers}}` }]))
    const payloads = () => folder.inStore(store => store.payloads(['a', 'b']))
    writeFileSync(join(folder.path, 'payload.json'), `{\n  ${numbers}\n}\n`)
    await folder.redrive(['task', 'edit', 'a', '--file', join(folder.path, 'payload.json')])
    const plan = await folder.redrive(['dlq', 'edit', 'b', '--patch', '{"n":12345678901234567890}', '--dry-run'])
    expect(plan.err).toContain(`b after:  {${numbers},"n":12345678901234567890}\n`)
    const done = await folder.redrive(['dlq', 'edit', 'b', '--patch', '{"n":12345678901234567890}', '--yes'])
    expect(await payloads()).toEqual([`{${numbers}}`, `{${numbers},"n":12345678901234567890}`])
    const operation = await folder.redrive(['ops', 'show', /op-\w+/.exec(done.err)?.[0] ?? '', '--output', 'jsonl'])
    expect(operation.out).toContain('"patch":{"n":12345678901234567890}')
    await folder.redrive(['task', 'edit', 'a', '--payload', '[9007199254740993]'])
    expect((await payloads())[0]).toBe('[9007199254740993]')
    expect((await folder.redrive(['task', 'show', 'a'])).out).toContain('9007199254740993')
  })
})

describe('redrive dlq edit --patch', () => {
  const letters = [
    { id: 'a', payload: '{"to":"ada","region":"us"}' },
    { id: 'b', payload: '{"to":"bob","region":"eu"}' },
    { id: 'c', payload: '{"to":"eve"}' },
  ]
  beforeEach(() => folder.inStore(store => deadLetters(store, letters)))
  const edit = (...flags: string[]) => folder.redrive(['dlq', 'edit', '--patch', '{"region":"eu"}', ...flags])
  const payloads = () => folder.inStore(store => store.payloads(['a', 'b', 'c']))
  const patched = ['{"to":"ada","region":"eu"}', '{"to":"bob","region":"eu"}', '{"to":"eve","region":"eu"}']

  it('shows one payload before and after, and how many would stay as they are', async () => {
    const { code, err } = await edit('--all', '--dry-run')
    expect(code).toBe(0)
    expect(err).toContain('1 would move as they are: the patch changes nothing.\n')
    expect(err).toMatch(/^(a|c) before: \{.*\}\n\1 after: {2}\{.*"region":"eu"\}\n/m)
    expect(await payloads()).toEqual(letters.map(({ payload }) => payload))
  })

  it('changes all payloads that match and redrives them, on record, until it is undone', async () => {
    const { json } = await edit('--kind', 'k', '--yes', '--why', 'moved to Europe', '--output', 'json')
    const { moved, operation } = json()
    expect([moved, operation.settings.patch]).toEqual([3, { region: 'eu' }])
    expect(await payloads()).toEqual(patched)
    const show = (await folder.redrive(['ops', 'show', operation.id])).out
    expect(show).toMatch(/^op-\w+ {2}edit {2}/)
    expect(show).toMatch(/^ {2}patch +\{"region":"eu"\}$/m)
    expect(show).toContain('3 moved: 3 under way.')
    expect((await folder.redrive(['task', 'show', 'a'])).out).toMatch(
      /redriven\n +by ada: moved to Europe\n +payload before: \{"to":"ada","region":"us"\}\n/,
    )
    expect((await folder.redrive(['task', 'show', 'b'])).out).not.toContain('payload before')
    expect((await folder.redrive(['ops', 'undo', operation.id, '--yes'])).err).toBe('3 put back.\n')
    expect(await payloads()).toEqual(letters.map(({ payload }) => payload))
    expect((await folder.inStore(store => store.count({}))).dead).toBe(3)
  })

  it('changes those that are named, and ends with 3 if some of them are not dead', async () => {
    const { code, err } = await edit('a', 'none', '--yes')
    expect([code, err]).toEqual([3, expect.stringContaining("'none' is not in the store.\n1 moved.\n")])
    expect(await payloads()).toEqual([patched[0], letters[1]?.payload, letters[2]?.payload])
  })

  it.each([
    [['--all', '--patch', '[]'], 'It must be a JSON object'],
    [['--all', '--patch', '{}'], 'It must be a JSON object'],
    [['--all', '--patch', '{'], 'It must be a JSON object'],
    [['--all', '--patch', '{"key":"[redacted]"}'], 'stands for a secret. Pass the secret itself.'],
    [['--patch', '{"a":1}'], 'Which dead letters?'],
    [['a', '--patch', '{"a":1}', '--payload', '{}'], 'but only one of them'],
    [['a', 'b', '--payload', '{}'], 'To edit many, pass --patch'],
    [['--kind', 'k', '--payload', '{}'], 'To edit many, pass --patch'],
    [['a', '--payload', '{}', '--canary', '1'], 'To edit many, pass --patch'],
  ])('refuses %j', async (flags, text) => {
    const { code, err } = await folder.redrive(['dlq', 'edit', ...flags])
    expect([code, err]).toEqual([2, expect.stringContaining(text)])
    expect(await payloads()).toEqual(letters.map(({ payload }) => payload))
  })

  it.each([
    ['too long', `{"a":"${'x'.repeat(2 ** 16)}"}`, 'must be at most 65536 characters'],
    ['too deep', `${'{"a":'.repeat(101)}1${'}'.repeat(101)}`, 'must have at most 100 levels'],
  ])('refuses a patch that is %s, in a dry run too', async (_, patch, text) => {
    const { code, err } = await folder.redrive(['dlq', 'edit', '--all', '--patch', patch, '--dry-run'])
    expect([code, err]).toEqual([2, expect.stringContaining(text)])
  })

  it('shows no secret of a patch in tables: in the plan, in the operation, or in the audit log', async () => {
    const patch = '{"apiKey":"k-123456-secret"}'
    const plan = await folder.redrive(['dlq', 'edit', '--all', '--patch', patch, '--dry-run'])
    const done = await folder.redrive(['dlq', 'edit', '--all', '--patch', patch, '--yes'])
    const id = /op-\w+/.exec(done.err)?.[0] ?? ''
    const shown = await folder.redrive(['ops', 'show', id])
    const audit = await folder.redrive(['audit', 'tail'])
    for (const { out, err } of [plan, done, shown, audit]) expect(out + err).not.toContain('k-123456-secret')
    expect(shown.out).toContain('"apiKey":[redacted]')
    // The audit log, which is kept longer, does not have it at all.
    const json = await folder.redrive(['audit', 'tail', '--output', 'json'])
    expect(json.out).not.toContain('k-123456-secret')
    expect(json.json()).toContainEqual(expect.objectContaining({ settings: { patched: ['apiKey'] } }))
  })

  it('refuses a patch that is too long before it begins', async () => {
    const patch = `{"a":"${'x'.repeat(2 ** 16)}"}`
    const { code, err } = await folder.redrive(['dlq', 'edit', '--all', '--patch', patch, '--yes'])
    expect([code, err]).toEqual([2, expect.stringContaining('65536')])
    expect(err).not.toContain('redrive ops ls')
  })
})

it('shows no secret of a reason in the tables of operations, lanes, tasks and the audit log', async () => {
  await folder.inStore(store => deadLetters(store, [{ id: 'a', kind: 'email' }]))
  const why = ['--why', 'while password=hunter2 holds']
  const done = await folder.redrive(['dlq', 'discard', '--all', ...why, '--yes'])
  await folder.redrive(['lane', 'pause', '--kind', 'email', ...why])
  const id = /op-\w+/.exec(done.err)?.[0] ?? ''
  const tables = [
    ['ops', 'ls'],
    ['ops', 'show', id],
    ['lane', 'ls', '--all'],
    ['task', 'show', 'a'],
    ['audit', 'tail'],
  ]
  for (const table of tables) {
    const { out } = await folder.redrive(table)
    expect(out, table.join(' ')).toContain('password=[redacted]')
    expect(out, table.join(' ')).not.toContain('hunter2')
  }
})

it('refuses a payload that was copied from a table without its secrets', async () => {
  await folder.inStore(store => deadLetters(store, [{ id: 'a', payload: '{"to":"ada","apiKey":"k-123456"}' }]))
  const [shown = ''] = /\{.*\}/.exec((await folder.redrive(['dlq', 'show', 'a'])).out) ?? []
  expect(shown).toContain('[redacted]')
  const copied = await folder.redrive(['dlq', 'edit', 'a', '--payload', shown])
  expect([copied.code, copied.err]).toEqual([
    2,
    expect.stringContaining("'[redacted]' stands for a secret. Copy the payload"),
  ])
  const mended = shown.replace('[redacted]', '"[redacted]"')
  const refused = await folder.redrive(['dlq', 'edit', 'a', '--payload', mended])
  expect([refused.code, refused.err]).toEqual([
    1,
    expect.stringContaining('redrive task show a --output json | jq .payload'),
  ])
  expect(await folder.inStore(store => store.get('a'))).toMatchObject({
    status: 'dead',
    payload: expect.stringContaining('k-12'),
  })
  const { json } = await folder.redrive(['task', 'show', 'a', '--output', 'json'])
  expect(json()).toMatchObject({ payload: { apiKey: 'k-123456' } })
})

it('says why a task that runs, has ended or is an item cannot be edited', async () => {
  const edit = async (id: string) => (await folder.redrive(['dlq', 'edit', id, '--payload', '{}'])).err
  await folder.inStore(async store => {
    await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
    await store.cancel(['a'])
    await store.enqueue([{ id: 'b', kind: 'k', payload: '{}' }])
    await store.claim({ worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['k'] }], limit: 1, isIdle: true })
    await store.enqueue([{ id: 'c', kind: 'pipeline:p', key: 'r', payload: '{}' }])
  })
  expect(await edit('a')).toContain("'a' cannot be edited: it has ended (cancelled), and does not run again.")
  expect(await edit('b')).toContain("'b' cannot be edited: it is running.")
  expect(await edit('c')).toContain("'c' is an item of a pipeline: it cannot be edited.")
})

it('exports dead letters line by line, with their history if asked', async () => {
  await folder.inStore(store =>
    deadLetters(
      store,
      ids.map(id => ({ id })),
    ),
  )
  const { out, err } = await folder.redrive(['dlq', 'export', '--history'])
  const letters = out
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(letters.map(({ id }) => id).sort()).toEqual(ids)
  expect(letters[0].history).toMatchObject([{ outcome: 'dead' }])
  expect(err).toBe('5 exported.\n')
})

it('cancels the tasks that match a filter, as an operation', async () => {
  await folder.inStore(store =>
    store.enqueue([
      { id: 'a', kind: 'k', payload: '1' },
      { id: 'b', kind: 'l', payload: '1' },
    ]),
  )
  const dry = await folder.redrive(['task', 'cancel', '--kind', 'k', '--dry-run'])
  expect(dry.err).toBe('1 task would be cancelled. This was a dry run: 0 cancelled.\n')
  const { code, err } = await folder.redrive(['task', 'cancel', '--kind', 'k', '--yes'])
  expect({ code, err }).toEqual({ code: 0, err: '1 cancelled.\n' })
  expect(await folder.inStore(store => store.count({}))).toMatchObject({ waiting: 1, cancelled: 1 })
})
