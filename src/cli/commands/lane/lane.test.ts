import { afterEach, beforeEach, expect, it } from 'vitest'
import { deadLetters } from '../../../../test/dead-letters.js'
import { type StoreFolder, storeFolder } from '../../../../test/store-folder.js'

const TERMINAL = { isTTY: { stdin: true, stdout: true, stderr: true }, columns: 80, env: { NO_COLOR: '1' } }

let folder: StoreFolder
beforeEach(async () => {
  folder = storeFolder()
  await folder.inStore(async store => {
    await deadLetters(store, [{ id: 'dead', kind: 'email' }])
    await store.enqueue([
      { id: 'a', kind: 'email', payload: '1' },
      { id: 'b', kind: 'email', key: 'tenant-7', payload: '1' },
      { id: 'c', kind: 'report', category: 'daily', payload: '1' },
    ])
  })
})
afterEach(() => folder.remove())

const lanes = () => folder.inStore(store => store.lanes())
const claimed = () =>
  folder.inStore(async store => {
    const rooms = [{ kinds: ['email', 'report'] }]
    const { tasks } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 10, isIdle: true })
    return tasks.map(({ id }) => id).sort()
  })

it('lists limits although a record of the audit log is damaged', async () => {
  await folder.redrive(['lane', 'limit', '--kind', 'email', '--concurrency', '5'])
  await folder.inStore(store => store.audit.append(['{"event_type":"lanes_limited"']))
  const { code, out } = await folder.redrive(['lane', 'ls', '--kind', 'email'])
  expect(code).toBe(0)
  expect(out).toMatch(/^ {2}5 at once, set by ada at /m)
})

it('lists lanes with their tasks, state and limits', async () => {
  await folder.redrive(['lane', 'limit', '--kind', 'email', '--concurrency', '5', '--rate', '600/m'])
  await folder.redrive(['lane', 'pause', '--kind', 'report'])
  const { lines } = await folder.redrive(['lane', 'ls'])
  expect(lines()).toEqual([
    'KIND    CATEGORY  KEY       STATE   WAITING  RUNNING  DEAD',
    'email   -         -         open    1        0        1',
    expect.stringMatching(/^ {2}5 at once, 10\/s, set by ada at \S+ \S+Z \(.+\)$/),
    'email   -         tenant-7  open    1        0        0',
    expect.stringMatching(/^ {2}5 at once, 10\/s, set by ada at \S+ \S+Z \(.+\)$/),
    'report  daily     -         paused  1        0        0',
    expect.stringMatching(/^ {2}paused by ada since \S+ \S+Z \(.+\)$/),
  ])
  const ids = await folder.redrive(['lane', 'ls', '--state', 'paused', '--output', 'jsonl'])
  expect(ids.json()).toMatchObject({ kind: 'report', category: 'daily', state: 'paused', heldUntil: null, limits: {} })
  const page = await folder.redrive(['lane', 'ls', '--limit', '2'])
  expect(page.err).toBe('2 of 3. For the next ones, pass --after 2; for all, --all.\n')
  expect((await folder.redrive(['lane', 'ls', '--after', '2', '--output', 'json'])).json()).toHaveLength(1)
  expect(await folder.redrive(['lane', 'ls', '--after', 'x'])).toMatchObject({ code: 2 })
})

it('shows until when a rate limit holds a lane', async () => {
  await folder.inStore(async store => {
    const rooms = [{ kinds: ['report'] }]
    const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 1, isIdle: true })
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w' }
    const outcome = { type: 'deferred', delayMs: 3_600_000 } as const
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
  })
  const { out } = await folder.redrive(['lane', 'ls', '--state', 'held'])
  expect(out).toMatch(/report +daily +- +held +1 +0 +0\n {2}ends in (1h|59m.*): a rate limit refused c\n/)
  expect((await folder.redrive(['stats'])).err).toContain('1 task waits in held lanes: redrive lane ls --state held\n')
  await folder.inStore(store => store.enqueue([{ id: 'behind', kind: 'report', category: 'daily', payload: '1' }]))
  expect((await folder.redrive(['task', 'ls'])).out).toMatch(/behind +report +waiting +0 +.* in (1h|59m)/)
})

it('shows which task an ordered lane waits for', async () => {
  await folder.redrive(['lane', 'limit', '--kind', 'report', '--ordered'])
  await folder.inStore(async store => {
    const rooms = [{ kinds: ['report'] }]
    const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 1, isIdle: true })
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w' }
    const outcome = { type: 'retry', delayMs: 3_600_000, isBackoff: true } as const
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
  })
  const { lines } = await folder.redrive(['lane', 'ls', '--state', 'held'])
  expect(lines().slice(1)).toEqual([
    expect.stringMatching(/^report +daily +- +waits +1 +0 +0$/),
    expect.stringMatching(/^ {2}waits for c, which is tried again in (1h|59m.*)$/),
    expect.stringMatching(/ordered, set by ada at /),
  ])
})

it('keeps names whole in a table of 80 columns, and leaves out columns without a value', async () => {
  const kind = 'billing:invoice-documents'
  const keys = ['tenant-0f15b7d2-52aa-9c41', 'tenant-0f15b7d2-52aa-9c42']
  await folder.inStore(store => store.enqueue(keys.map(key => ({ kind, key, payload: '1' }))))
  await folder.redrive(['lane', 'limit', '--kind', kind, '--concurrency', '2'])
  expect((await folder.redrive(['lane', 'ls', '--kind', kind], TERMINAL)).lines()).toEqual([
    'KIND                       KEY                        STATE  WAITING  RUNNING',
    ...keys.flatMap(key => [
      `${kind}  ${key}  open   1        0`,
      expect.stringMatching(/^ {2}2 at once, set by ada at /),
    ]),
  ])
  const { lines } = await folder.redrive(['lane', 'ls'], TERMINAL)
  expect(lines()).toContain(`${kind}  -         ${keys[1]}  open   1`)
  expect(Math.max(...lines().map(line => line.length))).toBeLessThanOrEqual(80)
})

it('pauses and resumes the lanes that are selected, on record', async () => {
  const paused = await folder.redrive(['lane', 'pause', '--kind', 'email', '--key', 'tenant-7', '--why', 'abuse'])
  expect(paused).toMatchObject({ code: 0, out: '', err: "Lanes of kind 'email' with key 'tenant-7': paused.\n" })
  expect((await lanes()).filter(({ isPaused }) => isPaused).map(({ key }) => key)).toEqual(['tenant-7'])
  expect((await folder.redrive(['stats'])).err).toContain(
    '1 task waits in paused lanes: redrive lane ls --state paused\n',
  )
  expect((await folder.redrive(['task', 'ls', '--key', 'tenant-7'])).out).toMatch(/waiting +0 .* paused\n/)
  const resumed = await folder.redrive(['lane', 'resume', '--kind', 'email', '--output', 'json'])
  expect(resumed.json()).toEqual({ kind: 'email', isPaused: false, running: 0 })
  expect((await lanes()).some(({ isPaused }) => isPaused)).toBe(false)
  const audit = await folder.redrive(['audit', 'tail'])
  expect(audit.lines()[1]).toMatch(/lanes_paused +ada +abuse/)
  expect(audit.lines()[3]).toMatch(/lanes_resumed +ada +-/)
})

it('says that there is no such lane yet: the kind may be mistyped', async () => {
  const NONE = 'There is no such lane yet: it holds for lanes that are made later.\n'
  expect((await folder.redrive(['lane', 'pause', '--kind', 'emial'])).err).toBe(
    `Lanes of kind 'emial': paused.\nNo task and no live worker has the kind 'emial': check the spelling. There are: email, report.\n${NONE}`,
  )
  expect((await folder.redrive(['lane', 'limit', '--kind', 'emial', '--rate', '1/s'])).err).toContain(NONE)
})

it('keeps the reason of a pause that is repeated without one, and resumes nothing that is not paused', async () => {
  await folder.redrive(['lane', 'pause', '--kind', 'email', '--why', 'the server is down'])
  await folder.redrive(['lane', 'pause', '--kind', 'email'])
  const rules = await folder.inStore(store => store.laneRules({ kind: 'email' }))
  expect(rules.pauses.at(-1)?.by?.why).toBe('the server is down')
  const resume = () => folder.redrive(['lane', 'resume', '--kind', 'email'])
  expect((await resume()).err).toBe("Lanes of kind 'email': resumed.\n")
  expect((await resume()).err).toBe("Lanes of kind 'email': they were not paused.\n")
})

it('lists what holds for lanes that do not exist yet', async () => {
  await folder.redrive(['lane', 'pause', '--kind', 'emial', '--why', 'mistyped'])
  await folder.redrive(['lane', 'limit', '--kind', 'emial', '--concurrency', '2'])
  await folder.redrive(['lane', 'pause', '--kind', 'sms', '--category', 'bulk'])
  await folder.redrive(['lane', 'resume', '--kind', 'sms', '--key', 'tenant-7'])
  const listed = await folder.redrive(['lane', 'ls', '--state', 'paused'])
  expect(listed.lines().map(line => line.replace(/ +/g, ' '))).toEqual([
    'KIND CATEGORY KEY STATE WAITING RUNNING DEAD',
    'emial any any paused 0 0 0',
    expect.stringMatching(/^ paused by ada since .+: mistyped$/),
    expect.stringMatching(/^ 2 at once, set by ada at /),
    'sms bulk any paused 0 0 0',
    expect.stringMatching(/^ paused by ada since [^)]+\)$/),
  ])
  const [rule] = (await folder.redrive(['lane', 'ls', '--kind', 'emial', '--output', 'json'])).json()
  expect(rule).toMatchObject({ kind: 'emial', category: null, key: null, isRule: true, pause: { why: 'mistyped' } })
  await folder.inStore(store => store.enqueue([{ kind: 'emial', payload: '1' }]))
  const [lane, ...rest] = (await folder.redrive(['lane', 'ls', '--kind', 'emial', '--output', 'json'])).json()
  expect([lane, rest]).toMatchObject([{ category: '', isRule: false, pause: { who: 'ada', why: 'mistyped' } }, []])
})

it('leaves out lanes that do not exist yet if nothing holds for them', async () => {
  await folder.redrive(['lane', 'limit', '--kind', 'sms', '--shared', '--concurrency', '1'])
  expect((await folder.redrive(['lane', 'ls', '--kind', 'sms'])).lines()).toHaveLength(3)
  await folder.redrive(['lane', 'limit', '--kind', 'sms', '--shared', '--none'])
  expect(await folder.redrive(['lane', 'ls', '--kind', 'sms'])).toMatchObject({ code: 0, out: '' })
  expect((await folder.redrive(['lane', 'ls', '--kind', 'sms', '--output', 'json'])).json()).toHaveLength(1)
})

it('says how many tasks still run in a paused lane', async () => {
  await claimed()
  const { err } = await folder.redrive(['lane', 'pause', '--kind', 'email'])
  expect(err).toBe("Lanes of kind 'email': paused. 2 tasks are still running.\n")
})

it('limits each lane by itself, or all of them together', async () => {
  const each = await folder.redrive(['lane', 'limit', '--kind', 'email', '--concurrency', '1', '--ordered'])
  expect(each.err).toBe("Lanes of kind 'email': limited to 1 at once, ordered, each.\n")
  const none = await folder.redrive(['lane', 'limit', '--kind', 'email', '--none'])
  expect(none.err).toBe("Lanes of kind 'email': no limits now.\n")
  expect((await lanes()).map(({ limits }) => limits)).toEqual([{}, {}, {}])
  const shared = await folder.redrive(['lane', 'limit', '--kind', 'email', '--shared', '--concurrency', '1'])
  expect(shared.err).toBe("Lanes of kind 'email': limited to 1 at once, together.\n")
  expect((await folder.redrive(['lane', 'ls', '--key', 'tenant-7'])).lines()[2]).toMatch(
    /^ {2}shared: 1 at once, set by ada at /,
  )
  expect(await claimed()).toHaveLength(2)
})

it('shows the dead letter at which an ordered lane stops', async () => {
  const limited = await folder.redrive(['lane', 'limit', '--kind', 'sync', '--ordered', '--on-dead', 'block'])
  expect(limited.err).toContain("Lanes of kind 'sync': limited to ordered, stops at dead letters, each.\n")
  await folder.inStore(async store => {
    await store.enqueue(['first', 'second'].map(id => ({ id, kind: 'sync', key: 'repo', payload: '1' })))
    const request = { worker: 'w', leaseMs: 1000, rooms: [{ kinds: ['sync'] }], limit: 9, isIdle: false }
    const { tasks } = await store.claim(request)
    const outcome = { type: 'dead', reason: 'final_error' } as const
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome })))
  })
  const listed = await folder.redrive(['lane', 'ls', '--state', 'blocked'])
  expect(listed.lines().map(line => line.replace(/ +/g, ' '))).toEqual([
    'KIND CATEGORY KEY STATE WAITING RUNNING DEAD',
    'sync - repo blocked 1 0 1',
    ' stops at the dead letter first, until that is redriven or discarded',
    expect.stringMatching(/^ 1 at once, ordered, stops at dead letters, set by ada at /),
  ])
  const [lane] = (await folder.redrive(['lane', 'ls', '--kind', 'sync', '--output', 'json'])).json()
  expect(lane).toMatchObject({ state: 'blocked', blockedBy: 'first', limits: { isOrdered: true, onDead: 'block' } })
  const shown = await folder.redrive(['dlq', 'show', 'first'])
  expect(shown.out).toContain('It blocks its ordered lane, in which 1 task waits, until it is redriven or')
  expect((await folder.redrive(['dlq', 'show', 'first', '--output', 'json'])).json()).toMatchObject({
    blocks: { waiting: 1 },
  })
  await folder.redrive(['dlq', 'discard', 'first', '--why', 'gone', '--yes'])
  expect((await folder.redrive(['lane', 'ls', '--kind', 'sync', '--output', 'json'])).json()).toMatchObject([
    { state: 'open', blockedBy: null },
  ])
})

it.each([
  [['pause']],
  [['resume', '--why', 'x']],
  [['limit', '--kind', 'k']],
  [['limit', '--kind', 'k', '--none', '--rate', '1/s']],
  [['limit', '--kind', 'k', '--rate', '10']],
  [['limit', '--kind', 'k', '--ordered', '--shared']],
  [['limit', '--kind', 'k', '--ordered', '--per-quota']],
  [['limit', '--kind', 'k', '--shared', '--per-quota', '--rate', '1/s']],
  [['limit', '--kind', 'k', '--category', 'c', '--per-quota', '--rate', '1/s']],
  [['limit', '--kind', 'k', '--rate', '1/s', '--on-dead', 'block']],
  [['limit', '--kind', 'k', '--ordered', '--on-dead', 'pass']],
  [['limit', '--kind', 'k', '--key', 't', '--shared', '--concurrency', '1']],
  [['ls', '--state', 'closed']],
])('refuses lane %j', async argv => {
  expect(await folder.redrive(['lane', ...argv])).toMatchObject({ code: 2, out: '' })
})

it('limits each quota, and shows the quotas of lanes', async () => {
  const task = (key: string, quota: string) => ({ kind: 'sync', key, quota, payload: '1' })
  const limited = await folder.redrive(['lane', 'limit', '--kind', 'sync', '--per-quota', '--concurrency', '2'])
  expect(limited.err).toContain("Lanes of kind 'sync': limited to 2 at once, those of each quota together.\n")
  expect((await folder.redrive(['lane', 'ls', '--kind', 'sync'])).out).toMatch(
    /\n {2}each quota: 2 at once, set by ada at /,
  )
  await folder.inStore(store => store.enqueue([task('r1', 'acme'), task('r2', 'acme')]))
  const { out } = await folder.redrive(['lane', 'ls', '--kind', 'sync', '--key', 'r1'])
  expect(out).toMatch(/\n {2}quota acme: 2 at once, set by ada at /)
  expect(
    (await folder.redrive(['lane', 'ls', '--kind', 'sync', '--key', 'r1', '--output', 'json'])).json(),
  ).toMatchObject([{ shared: { quota: 'acme', limits: { concurrency: 2 } } }])
  const key = await folder.redrive(['lane', 'limit', '--kind', 'sync', '--key', 'r1', '--none'])
  expect(key.err).toMatch(/The limit of each quota stays: 2 at once\. .*--kind sync --per-quota --none\n/)
  await folder.redrive(['lane', 'limit', '--kind', 'sync', '--none'])
  expect((await folder.redrive(['lane', 'ls', '--kind', 'sync', '--key', 'r1'])).out).toMatch(
    /\n {2}quota acme, set by ada at /,
  )
})

it('removes a limit that the lanes share with --none, and names one that stays', async () => {
  await folder.redrive(['lane', 'limit', '--kind', 'email', '--shared', '--concurrency', '2'])
  const category = await folder.redrive(['lane', 'limit', '--kind', 'email', '--category', 'x', '--none'])
  expect(category.err).toContain('no limits of their own now.\nA shared limit stays: 2 at once.')
  expect(category.err).toMatch(/run: redrive lane limit .*--kind email --shared --none\n/)
  const all = await folder.redrive(['lane', 'limit', '--kind', 'email', '--none'])
  expect(all.err).toContain("Lanes of kind 'email': no limits now.\n")
  expect((await folder.redrive(['lane', 'ls', '--kind', 'email'])).out).not.toContain('shared')
})
