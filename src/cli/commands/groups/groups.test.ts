import { afterEach, beforeEach, expect, it } from 'vitest'
import { deadLetters } from '../../../../test/dead-letters.js'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'

const TERMINAL = { isTTY: { stdin: true, stdout: true, stderr: true }, columns: 80, env: { NO_COLOR: '1' } }

let folder: StoreFolder
beforeEach(async () => {
  folder = storeFolder()
  await folder.inStore(store =>
    deadLetters(store, [
      { id: 'a', kind: 'charge', code: 'NotFound', message: 'Error: order 42 not found' },
      { id: 'b', kind: 'charge', code: 'NotFound', message: 'Error: order 43 not found' },
      { id: 'c', kind: 'charge', code: '42703', message: "Error: no column 'street'" },
    ]),
  )
})
afterEach(() => folder.remove())

/** The id of the group of the two orders. */
async function orders(): Promise<string> {
  const { json } = await folder.redrive(['groups', 'ls', '--output', 'json'])
  const groups = json() as { readonly id: string; readonly pattern: string }[]
  return groups.find(({ pattern }) => pattern === 'order * not found')?.id ?? ''
}

it('groups ls lists what failed in the same way', async () => {
  const { code, lines } = await folder.redrive(['groups', 'ls', '--kind', 'charge'])
  expect(code).toBe(0)
  const [header, ...rows] = lines()
  expect(header).toMatch(/^GROUP +KIND +STATE +SEEN +RETRYING +DEAD +LAST$/)
  const place = rows.indexOf('  NotFound: Error: order * not found')
  expect(rows[place - 1]).toMatch(/^1-\w{16} +charge +new +2 +0 +2 /)
  expect(await folder.redrive(['groups', 'ls', '--kind', 'x'])).toMatchObject({
    code: 0,
    err: "No failure groups match. There are no tasks of the kind 'x', only of: charge.\n",
  })
})

it('groups ls is a table on a terminal of 80 columns, whatever the states and kinds', async () => {
  const kind = 'notify:webhook-delivery'
  const code = 'webhook_signature_invalid'
  await folder.inStore(store => deadLetters(store, [{ id: 'd', kind, code, message: 'Error: broken' }]))
  const { json } = await folder.redrive(['groups', 'ls', '--output', 'json'])
  const groups = json() as { readonly id: string; readonly code: string }[]
  const idOf = new Map(groups.map(group => [group.code, group.id]))
  await folder.redrive(['groups', 'ack', idOf.get(code) ?? ''])
  await folder.redrive(['groups', 'fix', idOf.get('42703') ?? '', '--in', '1.8.0'])
  const { lines } = await folder.redrive(['groups', 'ls'], TERMINAL)
  const text = lines().join('\n')
  expect(lines()[0]).toMatch(/^GROUP +KIND +STATE +SEEN +DEAD +LAST$/)
  expect(text).toMatch(/^1-\w{16} {2}notify:webhook-delivery {2}acked +1 +1 /m)
  expect(lines()).toContain('  webhook_signature_invalid: Error: broken')
  expect(text).toMatch(/^1-\w{16} {2}charge {19}fixed 1\.8\.0 {2}1 /m)
  expect(Math.max(...lines().map(line => line.length))).toBeLessThanOrEqual(80)
})

it('groups show says why they are one group, what varies, and what to do next', async () => {
  const id = await orders()
  const { code, out } = await folder.redrive(['groups', 'show', id.slice(2, 10)])
  expect(code).toBe(0)
  expect(out).toContain("the message 'order * not found', in which * stands for what varies.")
  expect(out).toMatch(/errorMessage: Error: order 4\d not found \| Error: order 4\d not found$/m)
  expect(out).toContain(`redrive dlq redrive --group ${id} --canary 10 --dry-run`)
  const none = await folder.redrive(['groups', 'show', 'zz'])
  expect(none.code).not.toBe(0)
  expect(none.err).toContain("There is no failure group 'zz'.")
})

it('groups show names the worker and the release that all of them failed on, or several of each', async () => {
  const where = { code: 'TypeError', message: 'TypeError: total is undefined', worker: 'w3', release: '1.8.0' }
  const moved = { code: 'ECONNRESET', message: 'Error: reset', release: '1.8.0' }
  await folder.inStore(store =>
    deadLetters(store, [
      { id: 'd', kind: 'bill', ...where },
      { id: 'e', kind: 'bill', ...where },
      { id: 'f', kind: 'send', ...moved, worker: 'w1' },
      { id: 'g', kind: 'send', ...moved, worker: 'w2' },
    ]),
  )
  const shown = async (kind: string) => {
    const { json } = await folder.redrive(['groups', 'ls', '--kind', kind, '--output', 'json'])
    const [group] = json() as { readonly id: string }[]
    return folder.redrive(['groups', 'show', group?.id ?? ''], TERMINAL)
  }
  const bill = await shown('bill')
  expect(bill.out).toMatch(/^What the latest 2 share\n( {2}.*\n)* {2}worker: w3\n {2}release: 1\.8\.0$/m)
  expect(Math.max(...bill.lines().map(line => line.length))).toBeLessThanOrEqual(80)
  expect((await shown('send')).out).toMatch(/^What varies\n {2}worker: (w1 \| w2|w2 \| w1)$/m)
})

it('groups show hides the secrets of reasons', async () => {
  const id = await orders()
  const why = 'until password=hunter2 is changed'
  await folder.redrive(['groups', 'rule', 'add', 'order * not found', '--why', why])
  await folder.redrive(['groups', 'ack', id, '--why', why])
  const outputs = [await folder.redrive(['groups', 'show', id]), await folder.redrive(['groups', 'rule', 'ls'])]
  for (const { out } of outputs) {
    expect(out).toContain('password=[redacted]')
    expect(out).not.toContain('hunter2')
  }
})

it('--group selects tasks by the id of their group, or the beginning of it', async () => {
  const group = (await orders()).slice(0, 10)
  const listed = await folder.redrive(['dlq', 'ls', '--group', group, '--output', 'jsonl'])
  expect(
    listed
      .lines()
      .map(line => JSON.parse(line).id)
      .sort(),
  ).toEqual(['a', 'b'])
  expect((await folder.redrive(['dlq', 'count', '--group', group])).out).toBe('2\n')
  expect((await folder.redrive(['dlq', 'count', '--by', 'group'])).lines()).toHaveLength(3)
  const moved = await folder.redrive(['dlq', 'redrive', '--group', group, '--yes'])
  expect(moved.err).toContain('2 moved.')
  const waiting = await folder.redrive(['task', 'ls', '--group', group, '--output', 'jsonl'])
  expect(waiting.lines().map(line => JSON.parse(line).status)).toEqual(['waiting', 'waiting'])
})

it('dlq show and why offer to redrive all that failed in the same way', async () => {
  const all = `redrive dlq redrive --group ${await orders()}`
  const shown = await folder.redrive(['dlq', 'show', 'a'])
  expect(shown.out).toContain('2 dead letters failed in the same way. Redrive this one, or all of them:')
  expect(shown.out).toContain(`redrive dlq redrive a\n    ${all}`)
  const told = await folder.redrive(['why', 'a'])
  expect(told.out).toContain('Redrive all 2 dead letters that failed in the same way.')
  expect(told.out).toContain(all)
  for (const noun of [['dlq', 'show'], ['why']]) {
    expect((await folder.redrive([...noun, 'c'])).out).not.toContain('--group')
  }
})

it('groups ack, fix and reopen mark a group, on record', async () => {
  const id = await orders()
  const mark = (...argv: string[]) => folder.redrive(['groups', ...argv, '--output', 'json'])
  const acknowledged = await mark('ack', id.slice(0, 8), '--why', 'on it')
  expect(acknowledged.code).toBe(0)
  expect(acknowledged.json()).toMatchObject({ id, life: { state: 'acknowledged', why: 'on it' } })
  const fixed = await mark('fix', id, '--in', '1.8.0')
  expect(fixed.json()).toMatchObject({ life: { state: 'fixed', release: '1.8.0', before: [] } })
  expect(fixed.err).toMatch(/^'1-\w{16}' is fixed in 1\.8\.0, by \S+ (now|\ds ago)\.\n$/)
  expect((await folder.redrive(['groups', 'show', id])).out).toMatch(/\nstate {5}fixed in 1\.8\.0, by /)
  expect((await mark('ls', '--state', 'fixed')).json()).toHaveLength(1)
  expect((await mark('reopen', id)).json()).toMatchObject({ life: { state: 'new' } })
  expect((await mark('ls', '--state', 'fixed')).json()).toEqual([])
  const audit = await folder.redrive(['audit', 'tail', '--output', 'jsonl'])
  const states = audit.lines().map(line => JSON.parse(line).state)
  expect(states).toEqual(['acknowledged', 'fixed', 'new'])
})

it('groups fix --redrive plans an operation that waits for the release', async () => {
  const id = await orders()
  await folder.inStore(store => store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: ['charge'], release: '1.7.9' }))
  const argv = ['groups', 'fix', id, '--in', '1.8.0', '--redrive', '--canary', '2', '--output', 'json']
  const { code, json, err } = await folder.redrive(argv)
  expect(code).toBe(0)
  const waits = "It waits until all live workers of 'charge' run 1.8.0 or later. w runs 1.7.9."
  const { life, operation } = json()
  expect(life).toMatchObject({ state: 'fixed', release: '1.8.0' })
  expect(operation).toMatchObject({ status: 'planned', set: { filter: { kind: 'charge', group: id } }, note: waits })
  expect(operation.settings).toEqual({ canary: 2, fixedIn: { release: '1.8.0', before: ['1.7.9'] } })
  expect(err).toContain(`${operation.id} is planned. ${waits}\n`)
  const shown = await folder.redrive(['ops', 'show', operation.id])
  expect(shown.out).toMatch(/^ {2}fixed in +1\.8\.0$/m)
  expect(shown.out).toContain(waits)
  expect((await folder.redrive(['ops', 'ls', '--output', 'json'])).json()).toMatchObject([{ note: waits }])
  const again = await folder.redrive(argv)
  expect([again.code, again.err]).toEqual([
    2,
    expect.stringContaining(`waits for its fix already. To stop it, run: redrive ops stop ${operation.id}`),
  ])
  expect((await folder.redrive(['groups', 'fix', id, '--redrive'])).code).toBe(2)
  expect((await folder.redrive(['groups', 'fix', id, '--in', '1.8.0', '--canary', '2'])).code).toBe(2)
})

it('groups ls leaves out ignored groups, and says how many', async () => {
  const id = await orders()
  const argv = ['groups', 'ignore', id, '--until', '2999-12-01', '--until-count', '5', '--until-rate', '100/h']
  expect((await folder.redrive(argv)).err).toMatch(
    /is ignored until 2999-12-01 00:00:00Z \(in .*\) or it has failed 7 times in all or more than 100 an hour, by /,
  )
  const { json, err } = await folder.redrive(['groups', 'ls', '--output', 'json'])
  expect(json()).toEqual([expect.objectContaining({ code: '42703' })])
  expect(err).toBe('1 ignored. To list them, run: redrive groups ls --state ignored\n')
  const listed = await folder.redrive(['groups', 'ls', '--state', 'ignored', '--output', 'json'])
  const until = { at: '2999-12-01T00:00:00.000Z', count: 5, perHour: 100 }
  expect(listed.json()).toEqual([expect.objectContaining({ id, life: expect.objectContaining({ until, seen: 2 }) })])
  expect(listed.err).toBe('')
})

it.each([
  ['--until', 'tomorrow', 'a time to come'],
  ['--until', '2001-01-01', 'a time to come'],
  ['--until-count', '0', 'a whole number'],
  ['--until-rate', '5/s', 'a rate per hour'],
])('groups ignore refuses %s %s', async (flag, value, message) => {
  const { code, err } = await folder.redrive(['groups', 'ignore', 'x', flag, value])
  expect(code).toBe(2)
  expect(err).toContain(message)
})

it('groups rule add, ls and rm keep rules, on record', async () => {
  const rule = (...argv: string[]) => folder.redrive(['groups', 'rule', ...argv])
  expect(await rule('ls')).toMatchObject({ code: 0, out: '', err: 'No rules about groups.\n' })
  const added = await rule('add', '* not *', '--kind', 'charge', '--why', 'one cause', '--output', 'json')
  expect(added.json()).toMatchObject({ id: 1, kind: 'charge', pattern: '* not *', why: 'one cause' })
  expect(added.err).toContain('Rule 1 is on record. No worker is running: the next one regroups what failed before.')
  expect((await rule('ls')).lines()).toEqual([
    expect.stringMatching(/^RULE +KIND +PATTERN +ADDED +BY +WHY$/),
    expect.stringMatching(/^1 +charge +\* not \* +(now|\ds ago) +\S+ +one cause$/),
  ])
  expect((await rule('rm', '1')).err).toContain('Rule 1 is removed.')
  expect(await rule('rm', '1')).toMatchObject({ code: 1, err: expect.stringContaining('There is no rule 1.') })
  const audit = await folder.redrive(['audit', 'tail', '--output', 'jsonl'])
  const types = audit.lines().map(line => JSON.parse(line).event_type)
  expect(types).toEqual(['group_rule_added', 'group_rule_removed'])
})

it('groups rule add --dry-run shows what would be in another group', async () => {
  const preview = await folder.redrive(['groups', 'rule', 'add', 'order 42 not found', '--dry-run'])
  expect(preview.lines()[1]).toMatch(/^charge +order \* not found +order 42 not found +1 of the latest 2$/)
  expect(preview.err).toContain('Nothing has changed.')
  const none = await folder.redrive(['groups', 'rule', 'add', 'Error: order 42 not found', '--dry-run'])
  expect(none.err).toContain("If 'Error: ' is the class of the error, leave it out.")
  expect(none.err).toContain('No task would be in another group.')
  expect((await folder.redrive(['groups', 'rule', 'ls'])).out).toBe('')
})
