import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'
import { timetable } from '../../../calendar/internal.js'
import { schedule } from '../../../schedule/index.js'
import { declareTask } from '../../../task/index.js'

const TERMINAL = { isTTY: { stdin: false, stdout: true, stderr: true }, columns: 80, env: { NO_COLOR: '1' } }
const report = declareTask<null>('report')
const BY = { who: 'ada' }

let folder: StoreFolder
beforeEach(async () => {
  folder = storeFolder()
  await folder.inStore(async store => {
    const nightly = schedule('nightly', { cron: '30 2 * * *', timeZone: 'Europe/Berlin', task: report })
    const often = schedule('often', { every: '1s', task: report, overlap: 'skip' })
    await store.schedules.declare([nightly.spec], { worker: 'w', release: '1.4.0' }, timetable)
    await store.schedules.set(often.spec, BY, timetable)
  })
})
afterEach(() => folder.remove())

const get = (name: string) => folder.inStore(store => store.schedules.get(name))

it('lists schedules with their next slots, in 80 columns', async () => {
  await folder.redrive(['schedule', 'pause', 'often', '--why', 'too often'])
  const { lines } = await folder.redrive(['schedule', 'ls'], TERMINAL)
  expect(lines()[0]).toMatch(/^NAME +STATE +WHEN +NEXT/)
  expect(lines()[1]).toMatch(/^nightly +on +30 2 \* \* \* Europe\/Berlin +\d{4}-\d\d-\d\d 02:30 \(in \d+[hms]/)
  expect(lines().join('\n')).toMatch(/often +paused +every 1s +-[\s\S]*paused by ada since .*: too often/)
  for (const line of lines()) expect(line.length).toBeLessThanOrEqual(80)
  const json = (await folder.redrive(['schedule', 'ls', '--output', 'json'])).json()
  expect(json).toMatchObject([
    { name: 'nightly', state: 'on', declared: { release: '1.4.0' }, paused: null },
    { name: 'often', state: 'paused', declared: null, next: [], paused: { who: 'ada', why: 'too often' } },
  ])
})

it('says in words when a schedule is due', async () => {
  const zone = 'America/New_York'
  const crons = { both: '0 8 1,15 * MON-FRI', daily: '@daily', nearest: '0 0 15W * *', seconds: '*/10 * * * * *' }
  await folder.inStore(async store => {
    for (const [name, cron] of Object.entries(crons))
      await store.schedules.set(schedule(name, { cron, timeZone: zone, task: report }).spec, BY, timetable)
  })
  const words = async (name: string) => (await folder.redrive(['schedule', 'show', name])).lines()[2]?.trim()
  expect(await words('nightly')).toBe('At 02:30, Europe/Berlin time')
  const days = 'on day 1 and 15 of the month, Monday through Friday (either day is enough)'
  expect(await words('both')).toBe(`At 08:00, ${days}, ${zone} time`)
  expect(await words('daily')).toBe(`At 00:00, ${zone} time`)
  expect(await words('nearest')).toBe(`At 00:00, on the weekday nearest day 15 of the month, ${zone} time`)
  expect(await words('seconds')).toBe(`Every 10 seconds, ${zone} time`)
  // An interval is said in words already.
  expect(await words('often')).toBe('task      report')
  const { lines } = await folder.redrive(['schedule', 'ls'], TERMINAL)
  expect(lines()).toContain('  At 02:30, Europe/Berlin time')
})

it('creates a schedule, and changes what the flags say', async () => {
  const definition = ['--every', '15m', '--kind', 'cleanup', '--payload', '{ "n": 12345678901234567890 }']
  const rules = [
    '--overlap',
    'skip',
    '--catch-up-within',
    '2h',
    '--end',
    '2999-01-01',
    '--key',
    'eu',
    '--priority',
    '3',
  ]
  const plan = await folder.redrive(['schedule', 'set', 'clean', ...definition, ...rules, '--dry-run'])
  expect(plan.out).toMatch(/^clean: it would be created\n {2}when +every 15m\n {2}next +\S+ \d\d:\d\d \(in .*\n/)
  expect(await get('clean')).toBeUndefined()
  const made = await folder.redrive(['schedule', 'set', 'clean', ...definition, ...rules, '--why', 'new'])
  expect(made.err).toMatch(/^The schedule 'clean' was created\. Next: \S+ \d\d:\d\d \(in /)
  const task = { kind: 'cleanup', key: 'eu', priority: 3, payload: '{"n":12345678901234567890}' }
  const kept = { overlap: 'skip', catchUpWithinMs: 7_200_000, endAt: Date.parse('2999-01-01') }
  expect(await get('clean')).toMatchObject({ generation: 1, times: { everyMs: 900_000 }, task, ...kept })

  const rule = await folder.redrive(['schedule', 'set', 'clean', '--overlap', 'after', '--output', 'json', '--dry-run'])
  expect(rule.json()).toMatchObject({ name: 'clean', effect: 'change', isPaused: false })
  const cron = await folder.redrive(['schedule', 'set', 'clean', '--cron', '0 3 * * *', '--tz', 'Asia/Tokyo'])
  expect(cron.err).toContain("The schedule 'clean' begins anew. Next: ")
  const changed = { generation: 2, times: { cron: '0 3 * * *' }, timeZone: 'Asia/Tokyo', task, ...kept }
  expect(await get('clean')).toMatchObject(changed)
  const same = await folder.redrive(['schedule', 'set', 'clean', '--tz', 'Asia/Tokyo', '--dry-run', '--output', 'json'])
  expect(same.json()).toMatchObject({ effect: 'none' })
  await folder.redrive(['schedule', 'pause', 'clean'])
  const paused = await folder.redrive(['schedule', 'set', 'clean', '--catch-up', 'skip', '--output', 'json'])
  expect(paused).toMatchObject({ err: expect.stringContaining('It is paused, and stays so.') })
  expect(paused.json()).toMatchObject({ state: 'paused', catchUp: 'skip', overlap: 'skip', generation: 2 })
  const { out: audit } = await folder.redrive(['audit', 'tail', '--output', 'jsonl'])
  const records = audit
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(records.filter(({ schedule }) => schedule === 'clean')).toMatchObject([
    { event_type: 'schedule_created', who: 'ada', why: 'new' },
    { event_type: 'schedule_changed' },
    { event_type: 'schedule_paused' },
    { event_type: 'schedule_changed' },
  ])
})

it('refuses to set what cannot be, and changes nothing', async () => {
  const refused = async (...flags: string[]) => {
    const { code, err } = await folder.redrive(['schedule', 'set', ...flags])
    expect(code).toBe(2)
    return err
  }
  expect(await refused('new', '--every', '1h')).toContain('pass the kind of its task: --kind')
  expect(await refused('new', '--kind', 'k')).toContain("either a 'cron' expression or an interval")
  expect(await refused('nightly', '--cron', '0 0 31 2 *')).toContain('it never occurs')
  expect(await refused('nightly', '--tz', 'Europe/Atlantis')).toContain('Europe/Atlantis')
  expect(await refused('nightly', '--every', '1h', '--cron', '@daily')).toContain('cannot be used with')
  expect(await refused('nightly', '--payload', '{')).toContain('It must be JSON')
  expect(await refused('nightly', '--start', 'tomorrow')).toContain('such as 2027-03-01T08:00Z')
  expect(await refused('nightly', '--catch-up', 'all', '--overlap', 'skip')).toContain('lets only one of them run')
  expect(await get('new')).toBeUndefined()
  expect(await get('nightly')).toMatchObject({ generation: 1, times: { cron: '30 2 * * *' } })
})

it('checks the payload against the schema of its task', async () => {
  writeFileSync(
    join(folder.path, 'tasks.mjs'),
    `import { defineTask } from '${new URL('../../../task/index.ts', import.meta.url)}'
const validate = value => value?.to ? { value } : { issues: [{ message: 'has no recipient' }] }
const payload = { '~standard': { version: 1, vendor: 'test', validate } }
export const mail = defineTask('mail', { payload, handler: async () => {} })
`,
  )
  const set = ['schedule', 'set', 'mails', '--every', '1h', '--kind', 'mail', '--tasks', 'tasks.mjs']
  const refused = await folder.redrive([...set, '--payload', '{}'])
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('has no recipient') })
  expect((await folder.redrive([...set, '--payload', '{"to":"ada"}'])).code).toBe(0)
  expect((await get('mails'))?.task.payload).toBe('{"to":"ada"}')
})

it('shows the whole expression below where the table has no room for it', async () => {
  const name = 'invoices-of-all-customers-in-the-eastern-region'
  await folder.inStore(async store => {
    const { spec } = schedule(name, {
      cron: '0 8 1,15 * MON-FRI',
      timeZone: 'America/New_York',
      task: declareTask('report'),
    })
    await store.schedules.set(spec, { who: 'ada' }, timetable)
  })
  const { out } = await folder.redrive(['schedule', 'ls'], TERMINAL)
  expect(out.replace(/\n +/g, ' ')).toContain(`name ${name}, when 0 8 1,15 * MON-FRI America/New_York`)
})

it('shows how the last slots ended, with their reasons', async () => {
  await expect
    .poll(async () => {
      await folder.inStore(store => store.schedules.fire(10, timetable))
      return (await folder.redrive(['schedule', 'show', 'often'])).out
    })
    .toMatch(/last +\|x+/)
  const { out } = await folder.redrive(['schedule', 'show', 'often'])
  expect(out).toMatch(/^often: on\n {2}when +every 1s\n {2}task +report\n {2}rules +catch up: last, overlap: skip\n/)
  expect(out).toMatch(/\n {12}\| ran, x overlapped\n/)
  expect(out).toMatch(/overlapped: the run often@\S+Z had not finished/)
  expect(await folder.redrive(['schedule', 'show', 'nope'])).toMatchObject({
    code: 1,
    err: expect.stringContaining("There is no schedule 'nope'"),
  })
})

it('proves what happens on the days on which the clocks change', async () => {
  const { out } = await folder.redrive(['schedule', 'prove', 'nightly', '--year', '2027'])
  expect(out).toBe(`2027-03-28: 02:00 becomes 03:00, forward by 1h
  runs for 2027-03-28 02:30, at 2027-03-28 01:00:00Z
2027-10-31: 03:00 becomes 02:00, back by 1h
  runs for 2027-10-31 02:30, at 2027-10-31 00:30:00Z
`)
  expect((await folder.redrive(['schedule', 'prove', 'often', '--year', '2027'])).out).toContain(
    'do not change in 2027',
  )
})

it('pauses, resumes and removes on record', async () => {
  expect((await folder.redrive(['schedule', 'pause', 'nightly', '--why', 'freeze'])).err).toContain('is paused')
  expect((await get('nightly'))?.paused).toMatchObject({ who: 'ada', why: 'freeze' })
  await folder.redrive(['schedule', 'resume', 'nightly'])
  expect((await get('nightly'))?.paused).toBeUndefined()
  await folder.redrive(['schedule', 'rm', 'nightly'])
  expect(await get('nightly')).toBeUndefined()
  const audit = await folder.redrive(['audit', 'tail', '--output', 'jsonl'])
  for (const act of ['created', 'paused', 'resumed', 'removed']) expect(audit.out).toContain(`schedule_${act}`)
})

it('starts a run now, but not beside one that must not overlap', async () => {
  const { err } = await folder.redrive(['schedule', 'run', 'often'])
  expect(err).toMatch(/^Started often@\S+Z\. To see it, run: redrive task show often@/)
  const again = await folder.redrive(['schedule', 'run', 'often'])
  expect(again).toMatchObject({ code: 2, err: expect.stringContaining('has not finished. Nothing was started.') })
})

it('backfills what did not run: shows it first, asks, and adds nothing the second time', async () => {
  const to = new Date(Math.floor(Date.now() / 1000) * 1000)
  const range = ['--from', new Date(to.getTime() - 3000).toISOString(), '--to', to.toISOString()]
  const plan = await folder.redrive(['schedule', 'backfill', 'often', ...range, '--dry-run'])
  expect(plan.out).toMatch(/^3 slots would run, 0 had run before\.\n( {2}\S+ \S+ missed: it is not on record\n){3}$/)
  const unasked = await folder.redrive(['schedule', 'backfill', 'often', ...range])
  expect(unasked).toMatchObject({ code: 2, err: expect.stringContaining('pass --yes. Nothing was started.') })
  const all = [...range, '--yes', '--at-once', '9']
  const done = await folder.redrive(['schedule', 'backfill', 'often', ...all, '--why', 'an outage'])
  expect(done).toMatchObject({ code: 0, err: expect.stringContaining('3 started.') })
  const again = await folder.redrive(['schedule', 'backfill', 'often', ...all])
  expect(again.out).toBe('0 slots would run, 3 had run before.\n')
  expect(await folder.inStore(store => store.count({}))).toMatchObject({ waiting: 3 })
  const future = ['--from', '2999-01-01', '--to', '2999-02-01']
  expect(await folder.redrive(['schedule', 'backfill', 'often', ...future, '--dry-run'])).toMatchObject({ code: 2 })

  const [operation] = (await folder.redrive(['ops', 'ls', '--output', 'json'])).json()
  expect(operation).toMatchObject({ act: 'backfill', status: 'done', moved: 3, who: 'ada', why: 'an outage' })
  const shown = await folder.redrive(['ops', 'show', operation.id], TERMINAL)
  expect(shown.out).toMatch(/members +slots of 'often' from \S+ \S+ to .*\n +started +3 of 3\n +at once +9\n/)
  const undone = await folder.redrive(['ops', 'undo', operation.id, '--yes'])
  expect(undone.err).toContain('3 cancelled.')
  const left = await folder.redrive(['schedule', 'backfill', 'often', ...range, '--dry-run'])
  expect(left.out).toBe(
    '0 slots would run, 0 had run before.\n' +
      '3 left alone: the runs of these slots were there already, such as those that were cancelled.\n',
  )
})

it('leaves a backfill to workers, and goes on with it', async () => {
  const to = new Date(Math.floor(Date.now() / 1000) * 1000)
  const range = ['--from', new Date(to.getTime() - 3000).toISOString(), '--to', to.toISOString(), '--yes']
  const nobody = await folder.redrive(['schedule', 'backfill', 'often', ...range, '--detach'])
  expect(nobody).toMatchObject({ code: 1, err: expect.stringContaining('No worker is running') })
  // Its runs must not overlap, so the second one waits for the first.
  const first = await folder.redrive(['schedule', 'backfill', 'often', ...range])
  expect(first).toMatchObject({ code: 3, err: expect.stringContaining('Stopped: No worker is running') })
  expect(await folder.inStore(store => store.count({}))).toMatchObject({ waiting: 1 })
  const [{ id }] = (await folder.redrive(['ops', 'ls', '--output', 'json'])).json()
  await folder.inStore(async store => {
    const { items } = await store.list({ status: 'waiting' }, { limit: 9 })
    await store.cancel(items.map(({ id }) => id))
  })
  const next = await folder.redrive(['ops', 'continue', id])
  expect(next).toMatchObject({ code: 3, err: expect.stringContaining('1 started now, 2 in all.') })
  expect(next.err).toContain('To cancel its runs that have not begun: redrive ops undo')
})
