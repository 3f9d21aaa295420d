import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deadLetters } from '../../test/dead-letters.js'
import { timetable } from '../calendar/internal.js'
import { MemoryStore, type ScheduleSpec, type StoreContract } from '../store/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'

import { defineTask, TaskQueue, Worker } from '../task/index.js'
import { fakeClock } from '../testing/index.js'
import { type Notifier, type NotifyOptions, notify, slack, webhook } from './index.js'

const SECRET = 'T0000-B0000-hunter2secret'

interface Received {
  readonly headers: IncomingHttpHeaders
  readonly body: unknown
}

/** A server that takes messages, and answers with these statuses, the last one for ever. It repeats the path in its reason phrase. */
async function receiver(...statuses: number[]) {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    received.push({ headers: request.headers, body: JSON.parse(Buffer.concat(chunks).toString()) })
    const status = (statuses.length > 1 ? statuses.shift() : statuses[0]) ?? 200
    const headers = status < 400 && status >= 300 ? { location: 'http://127.0.0.1:1/' } : {}
    response.writeHead(status, `cannot post to ${request.url}`, headers).end()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  servers.push(server)
  const { port } = server.address() as AddressInfo
  return { received, url: `http://127.0.0.1:${port}/services/${SECRET}` }
}

let servers: ReturnType<typeof createServer>[]
let notifiers: Notifier[]
let store: StoreContract
beforeEach(() => {
  servers = []
  notifiers = []
  store = new MemoryStore()
})
afterEach(async () => {
  for (const notifier of notifiers) await notifier.stop()
  for (const server of servers) server.close()
  await store.close()
})

async function start(options: NotifyOptions, on = store): Promise<Notifier> {
  const notifier = notify(on, options)
  notifiers.push(notifier)
  await notifier.start()
  return notifier
}

/** A task that has been ready for an hour. */
const old = (kind = 'charge', more = {}) =>
  store.enqueue([{ kind, payload: '{}', runAt: Date.now() - 3_600_000, ...more }])

describe('a message', () => {
  it('says that the oldest ready task has waited for too long, in Slack’s form', async () => {
    const { received, url } = await receiver()
    await old('charge <!channel> @channel')
    await start({ to: slack(url), oldestAge: '10m' })
    await expect.poll(() => received.length).toBe(1)
    const [{ body }] = received as [Received]
    expect(body).toEqual({
      text: 'The oldest ready task of charge &lt;!channel&gt; @\u200bchannel has waited for 1h; the limit is 10m. 1 ready, no worker runs it. To list the workers, run: redrive worker ls',
    })
  })

  it('about an age points to the queue if workers run the kind', async () => {
    const { received, url } = await receiver()
    await old()
    await store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: ['charge'] })
    await start({ to: slack(url), oldestAge: '10m' })
    await expect.poll(() => received.length).toBe(1)
    expect(received[0]?.body).toMatchObject({
      text: expect.stringMatching(/1 ready, 1 worker runs it\. To see the queue, run: redrive stats$/),
    })
  })

  it('comes to a webhook as JSON, with an id that tells a repetition', async () => {
    const { received, url } = await receiver(503, 200)
    await old()
    await start({ to: webhook(url, { headers: { authorization: 'Bearer token' } }), oldestAge: '10m' })
    await expect.poll(() => received.length, { timeout: 20_000 }).toBe(2)
    const [first, second] = received
    expect(second?.body).toEqual(first?.body)
    const id = String(second?.headers['idempotency-key'])
    expect(second?.body).toMatchObject({
      id,
      type: 'oldest_age',
      facts: { kind: 'charge', category: '', ready: 1, limitMs: 600_000 },
    })
    expect(second?.headers).toMatchObject({ authorization: 'Bearer token' })
    await expect.poll(async () => (await store.get(`notify:webhook:${id}`))?.status).toBe('succeeded')
  })

  it('is sent once, however many processes find the same', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redrive-notify-'))
    const file = await openSqlite(join(folder, 'redrive.db'))
    const other = await openSqlite(join(folder, 'redrive.db'))
    const { received, url } = await receiver()
    await file.enqueue(['a', 'b'].map(category => ({ kind: 'charge', category, payload: '{}', runAt: 0 })))
    const both = [await start({ to: slack(url), oldestAge: '10m' }, file)]
    both.push(await start({ to: slack(url), oldestAge: '10m' }, other))
    for (const notifier of both) await notifier.look()
    for (const notifier of both) await notifier.stop()
    expect(await file.count({ kind: 'notify:slack' })).toMatchObject({ succeeded: 2, waiting: 0 })
    expect(received).toHaveLength(2)
    await file.close()
    await other.close()
    rmSync(folder, { recursive: true })
  })

  it('about something that lasts is repeated after a time, and no earlier', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    await store.enqueue([{ kind: 'charge', payload: '{}' }])
    // Close to the end of an hour of the clock, where the number of the message changes.
    await clock.advance(3_600_000 - (clock.now() % 3_600_000) - 1000)
    const notifier = notify(store, { to: slack(url), oldestAge: '1s', repeat: '1h', clock })
    const told = async () => (await store.count({ kind: 'notify:slack' })).waiting
    await notifier.look()
    expect(await told()).toBe(1)
    await clock.advance(2000)
    await notifier.look()
    expect(await told()).toBe(1)
    await clock.advance(3_600_000)
    await notifier.look()
    expect(await told()).toBe(2)
    // An age of its own messages is not told: that would never end.
    expect(
      (await store.list({ kind: 'notify:slack' }, { limit: 10 })).items.map(({ payload }) => payload).join(),
    ).not.toContain('of notify')
  })

  it('says once that work fails in a new way, however often it fails', async () => {
    const { received, url } = await receiver()
    const charge = defineTask('charge', {
      policy: { attempts: 2, backoff: 'none' },
      handler: ({ order }: { order: number }) => {
        throw new Error(`order ${order} has no card, token=hunter2`)
      },
    })
    const queue = new TaskQueue(store)
    const worker = new Worker(store, { tasks: [charge] })
    await worker.start()
    await Promise.all([41, 42, 43].map(order => queue.enqueue(charge, { order })))
    await expect.poll(async () => (await store.count({ kind: 'charge' })).dead).toBe(3)
    await worker.stop()
    const notifier = await start({ to: slack(url) })
    await notifier.look()
    await expect.poll(async () => (await store.count({ kind: 'notify:slack' })).succeeded).toBe(1)
    const [{ body }] = received as [Received]
    expect(body).toMatchObject({
      text: expect.stringMatching(
        /^New failure of charge: \S+, Error: order \* has no card.* Seen 6 times; 0 retrying, 3 dead\. To see it, run: redrive groups show 1-[0-9a-f]{16}$/,
      ),
    })
    expect(JSON.stringify(body)).not.toContain('hunter2')
  })

  it('ends with the whole command, however long the failure is', async () => {
    const { url } = await receiver()
    await deadLetters(store, [{ id: 'a', kind: 'charge', message: `Error: no ${'very '.repeat(300)}good card` }])
    await notify(store, { to: slack(url) }).look()
    const { items } = await store.list({ kind: 'notify:slack' }, { limit: 10 })
    const [group] = (await store.groups.list({}, { limit: 1 })).items
    expect(JSON.parse(items[0]?.payload ?? '{}').text).toMatch(
      new RegExp(`To see it, run: redrive groups show ${group?.id}$`),
    )
  })

  it('tells of a storm of new failures in few messages, the same for all processes', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    const words = 'abcdefghijklmnopqrstuvwxyz'.split('')
    const fail = (kind: string, names: readonly string[]) =>
      deadLetters(
        store,
        names.map(name => ({ id: `${kind}-${name}`, kind, message: `Error: no ${name}` })),
      )
    await fail('charge', words)
    await clock.advance(1)
    await fail('mail', ['x', 'y'])
    const notifiers = [0, 1].map(() => notify(store, { to: slack(url), clock }))
    const texts = async () =>
      (await store.list({ kind: 'notify:slack' }, { limit: 100 })).items.map(({ payload }) => JSON.parse(payload).text)
    const look = async () => {
      for (const notifier of notifiers) await notifier.look()
    }
    await look()
    expect(await texts()).toHaveLength(10)
    await clock.advance('30s')
    await look()
    expect(await texts()).toHaveLength(10)
    await clock.advance('5m')
    await look()
    await clock.advance('5m')
    await look()
    expect(await texts()).toHaveLength(11)
    expect(await texts()).toContainEqual(
      expect.stringMatching(
        /^And 18 more new failures between \d\d:\d\d and \d\d:\d\d UTC: charge 16, mail 2\. To list them, run: redrive groups ls --state new$/,
      ),
    )
  })

  it('says once that a fixed failure is back, and nothing of one that is ignored', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    const fail = (id: string) =>
      deadLetters(store, [{ id, kind: 'charge', code: 'E', message: `Error: no card ${id}1` }])
    const texts = async () => {
      const { items } = await store.list({ kind: 'notify:slack' }, { limit: 10 })
      return items.map(({ payload }) => JSON.parse(payload).text).sort()
    }
    const notifier = notify(store, { to: slack(url), clock })
    await fail('a')
    const [group] = (await store.groups.list({}, { limit: 2 })).items
    const id = group?.id ?? ''
    await store.groups.mark(id, { state: 'ignored' }, { who: 'ann' })
    await notifier.look()
    expect(await texts()).toEqual([])
    for (const letter of ['b', 'c']) {
      await store.groups.mark(id, { state: 'fixed' }, { who: 'ann' })
      await clock.advance(1)
      await fail(letter)
      await fail(`${letter}${letter}`)
      await notifier.look()
      await notifier.look()
    }
    expect(await texts()).toEqual([
      `charge fails again: E, Error: no card *. ann had marked it as fixed. 0 retrying, 3 dead. To see it, run: redrive groups show ${id}`,
      `charge fails again: E, Error: no card *. ann had marked it as fixed. 0 retrying, 5 dead. To see it, run: redrive groups show ${id}`,
    ])
  })

  it('says once that a failure budget has stopped a kind, and again if that happens again', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    await store.budgets.set({ kind: 'charge' }, { failures: { share: 0.5, minAttempts: 3 } })
    const outage = async () => {
      await store.enqueue([1, 2, 3].map(() => ({ kind: 'charge', payload: '{}' })))
      const { tasks, now } = await store.claim({
        worker: 'w',
        leaseMs: 1000,
        limit: 3,
        rooms: [{ kinds: ['charge'] }],
        isIdle: true,
      })
      const verdict = { class: 'retryable', code: 'http_503' } as const
      const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w', verdict, error: 'down' }
      const outcome = { type: 'dead', reason: 'attempts_exhausted' } as const
      await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
    }
    const messages = async () => {
      const { items } = await store.list({ kind: 'notify:slack' }, { limit: 10 })
      return items.map(({ payload }) => JSON.parse(payload))
    }
    const texts = async () => (await messages()).map(({ text }) => text)
    const notifier = notify(store, { to: slack(url), groups: false, clock })
    await notifier.look()
    expect(await texts()).toEqual([])
    await outage()
    await notifier.look()
    await clock.advance(1000)
    await notifier.look()
    expect(await texts()).toEqual([
      'charge is stopped on all machines: 3 of 3 recent attempts failed, most of them with http_503. One task tries again at 00:00:30 UTC. To see it, run: redrive budget ls',
    ])
    expect((await messages())[0].facts).toEqual({
      kind: 'charge',
      category: null,
      since: '2000-01-01T00:00:00.000Z',
      until: '2000-01-01T00:00:30.000Z',
      code: 'http_503',
      attempts: 3,
      failed: 3,
    })
    await clock.advance('1m')
    await notify(store, { to: slack(url, { name: 'late' }), groups: false, clock }).look()
    const { items: late } = await store.list({ kind: 'notify:late' }, { limit: 10 })
    expect(JSON.parse(late[0]?.payload ?? '{}').text).toContain(
      'A few tasks have been trying again since 00:00:30 UTC.',
    )
    await store.budgets.lift({ kind: 'charge' })
    await store.budgets.set({ kind: 'charge' }, { failures: { share: 0.5, minAttempts: 3 } })
    await outage()
    await notifier.look()
    expect(await texts()).toHaveLength(2)

    // The outage lasts longer than the messages are kept.
    const { items } = await store.list({ kind: 'notify:slack' }, { limit: 10 })
    await store.cancel(items.map(({ id }) => id))
    await clock.advance('10m')
    await notifier.look()
    await store.prune({ endedMs: 1 }, 100)
    await notifier.look()
    expect(await texts()).toEqual([])
  })

  it('says how an operation has ended, and nothing of one that ended long ago', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    const discard = async (id: string) => {
      await store.enqueue([{ id, kind: 'charge', payload: '{}' }])
      const { tasks } = await store.claim({
        worker: 'w',
        leaseMs: 1000,
        limit: 1,
        rooms: [{ kinds: ['charge'] }],
        isIdle: true,
      })
      const attempt = {
        attempt: 1,
        startedAt: 0,
        endedAt: 0,
        worker: 'w',
        verdict: { class: 'final', code: 'E' } as const,
      }
      for (const { id, token } of tasks)
        await store.settle([{ id, token, outcome: { type: 'dead', reason: 'final_error' }, attempt }])
      const { id: operation } = await store.operations.create({
        act: 'discard',
        set: { ids: [id] },
        by: { who: 'ann', why: 'test data' },
      })
      const taken = await store.operations.take(operation, 'driver', 1000)
      const { progress } = taken?.operation ?? { progress: undefined }
      if (taken === undefined || progress === undefined) throw new Error('not taken')
      await store.operations.step(operation, taken.token, {
        leaseMs: 1000,
        move: [id],
        status: 'done',
        progress: { ...progress, isRead: true },
      })
      return operation
    }
    await discard('a')
    await clock.advance('2h')
    const recent = await discard('b')
    const notifier = notify(store, { to: slack(url), clock })
    await notifier.look()
    await notifier.look()
    const { items } = await store.list({ kind: 'notify:slack' }, { limit: 10 })
    expect(items.map(({ payload }) => JSON.parse(payload).text)).toEqual([
      `The discard ${recent} by ann is done: 1 discarded. To see it, run: redrive ops show ${recent}`,
    ])
    expect(JSON.parse(items[0]?.payload ?? '{}').facts).toEqual({
      operation: recent,
      act: 'discard',
      who: 'ann',
      status: 'done',
      reason: null,
      moved: 1,
      undone: 0,
    })
  })

  it('says how an edit has ended, in the same words as its facts', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    await deadLetters(
      store,
      ['a', 'b'].map(id => ({ id, kind: 'charge' })),
    )
    const by = { who: 'ann' }
    const settings = { patch: { region: 'eu-1' } }
    const { id } = await store.operations.create({ act: 'redrive', set: { ids: ['a', 'b'] }, by, settings })
    const taken = await store.operations.take(id, 'driver', 1000)
    if (taken === undefined) throw new Error('not taken')
    const { token, operation } = taken
    const progress = { ...operation.progress, isRead: true }
    await store.operations.step(id, token, { leaseMs: 1000, move: ['a', 'b'], status: 'settling', progress })
    await store.operations.change(id, 'stop', by)
    await store.operations.undo(id, { limit: 10 }, by)
    await notify(store, { to: slack(url), groups: false, clock }).look()
    const { items } = await store.list({ kind: 'notify:slack' }, { limit: 10 })
    const { text, facts } = JSON.parse(items[0]?.payload ?? '{}')
    expect(text).toMatch(
      /^The edit op-\w+ by ann has stopped .*: 2 moved, 2 put back\. To see it, run: redrive ops show op-\w+$/,
    )
    expect(facts).toMatchObject({ act: 'redrive', patch: true, moved: 2, undone: 2, succeeded: 0, dead: 0 })
  })

  it('has no tallies of an act that has none', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    await store.enqueue([{ id: 'a', kind: 'charge', payload: '{}' }])
    const by = { who: 'ann' }
    const { id } = await store.operations.create({ act: 'cancel', set: { ids: ['a'] }, by })
    const taken = await store.operations.take(id, 'driver', 1000)
    if (taken === undefined) throw new Error('not taken')
    const progress = { ...taken.operation.progress, isRead: true }
    await store.operations.step(id, taken.token, { leaseMs: 1000, move: ['a'], status: 'done', progress })
    await notify(store, { to: slack(url), groups: false, clock }).look()
    const { items } = await store.list({ kind: 'notify:slack' }, { limit: 10 })
    const { text, facts } = JSON.parse(items[0]?.payload ?? '{}')
    expect(text).toBe(`The cancel ${id} by ann is done: 1 cancelled. To see it, run: redrive ops show ${id}`)
    expect(facts).toEqual({ operation: id, act: 'cancel', who: 'ann', status: 'done', reason: null, moved: 1 })
  })

  it('leaves operations to workers, which know the schemas of payloads', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
    const tried = { outcome: { type: 'dead', reason: 'final_error' }, attempt } as const
    await store.enqueue([{ id: 'a', kind: 'charge', payload: '{}', tried }])
    const set = { filter: {}, until: clock.now() + 1 }
    const { id } = await store.operations.create({ act: 'redrive', set, by: { who: 'ann' } })
    const notifier = notify(store, { to: slack(url), clock })
    await notifier.start()
    await clock.advance('2m')
    expect(await store.operations.get(id)).toMatchObject({ status: 'running', moved: 0 })
    await notifier.stop()
  })

  it('says how an operation has ended that a hundred others were created after', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    const by = { who: 'ann' }
    const create = () => store.operations.create({ act: 'redrive', set: { ids: ['a'] }, by })
    const { id } = await create()
    for (let n = 0; n < 100; n++) {
      await clock.advance(1)
      await create()
    }
    const notifier = notify(store, { to: slack(url), clock })
    await notifier.look()
    await store.operations.change(id, 'stop', by)
    await notifier.look()
    const { items } = await store.list({ kind: 'notify:slack' }, { limit: 10 })
    expect(items.map(({ payload }) => JSON.parse(payload).facts.operation)).toEqual([id])
  })

  it('says that an operation has stopped again for another reason, though it has moved nothing since', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    const { id } = await store.operations.create({ act: 'redrive', set: { ids: ['a'] }, by: { who: 'ann' } })
    const notifier = notify(store, { to: slack(url), clock })
    for (const why of ['lunch', 'still broken']) {
      await store.operations.change(id, 'stop', { who: 'ann', why })
      await notifier.look()
      await store.operations.change(id, 'continue', { who: 'ann' })
    }
    const { items } = await store.list({ kind: 'notify:slack' }, { limit: 10 })
    expect(items.map(({ payload }) => JSON.parse(payload).facts.reason).sort()).toEqual([
      'Stopped by ann: lunch',
      'Stopped by ann: still broken',
    ])
  })

  it('is not held back until the clock, which was set back, has caught up', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { url } = await receiver()
    const notifier = notify(store, { to: slack(url), clock })
    await notifier.look()
    clock.setNow(clock.now() - 7_200_000)
    await deadLetters(store, [{ id: 'a', kind: 'charge', message: 'Error: no card' }])
    await notifier.look()
    expect(await store.count({ kind: 'notify:slack' })).toMatchObject({ waiting: 1 })
  })

  it('is looked for now and then, until the notifier stops', async () => {
    const clock = fakeClock()
    store = new MemoryStore({ clock })
    const { received, url } = await receiver()
    const notifier = await start({ to: slack(url), clock, every: '20s' })
    await deadLetters(store, [{ id: 'a', kind: 'charge', message: 'Error: no card' }])
    await clock.advance('10s')
    expect(await store.count({ kind: 'notify:slack' })).toMatchObject({ waiting: 0, succeeded: 0 })
    await clock.advance('10s')
    await expect.poll(() => received.length).toBe(1)
    expect(await store.workers()).toMatchObject([
      { name: expect.stringMatching(/^notifier-/), kinds: ['notify:slack'] },
    ])
    expect((await store.stats()).workers).toBe(0)
    await notifier.stop()
    await deadLetters(store, [{ id: 'b', kind: 'charge', message: 'Error: no name' }])
    await clock.advance('1m')
    expect(received).toHaveLength(1)
  })

  it('that the other side refuses for good becomes a dead letter, which does not show the URL', async () => {
    const { url } = await receiver(404)
    await old()
    await start({ to: slack(url), oldestAge: '10m' })
    await expect.poll(async () => (await store.count({ kind: 'notify:slack' })).dead).toBe(1)
    const [letter] = (await store.list({ status: 'dead' }, { limit: 1 })).items
    expect(letter?.errorCode).toBe('http_404')
    expect(JSON.stringify([letter, await store.ledger(letter?.id ?? '')])).not.toContain('hunter2')
  })

  it('waits for a rate limit, but not for a day', async () => {
    const server = createServer((_, response) => response.writeHead(429, { 'retry-after': '86400' }).end())
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    servers.push(server)
    await old()
    const { port } = server.address() as AddressInfo
    await start({ to: slack(`http://127.0.0.1:${port}/`), oldestAge: '10m' })
    await expect.poll(async () => (await store.list({ errorCode: 'http_429' }, { limit: 1 })).items.length).toBe(1)
    const [message] = (await store.list({ errorCode: 'http_429' }, { limit: 1 })).items
    expect((message?.nextAttemptAt ?? Infinity) - (message?.changedAt ?? 0)).toBe(600_000)
  })

  it('does not follow a redirect', async () => {
    const { received, url } = await receiver(307)
    await old()
    await start({ to: slack(url), oldestAge: '10m' })
    await expect.poll(async () => (await store.count({ kind: 'notify:slack' })).dead).toBe(1)
    expect(received).toHaveLength(1)
    const [letter] = (await store.list({ status: 'dead' }, { limit: 1 })).items
    expect(letter?.errorCode).toBe('redirected')
  })
})

describe('a target', () => {
  it.each([
    ['a host without TLS', 'http://hooks.example.com/hunter2', 'must begin with https://'],
    ['another protocol', 'file:///etc/hunter2', 'must begin with https://'],
    ['no URL at all', 'hunter2', 'is invalid'],
    ['a URL with a password', 'https://ann:hunter2@hooks.example.com/', "the header 'authorization'"],
    ['a URL with a user', 'https://hunter2@hooks.example.com/', "the header 'authorization'"],
    ['a variable that is not set', undefined, 'Is its environment variable set?'],
  ])('refuses %s, and does not repeat it', (_, url, problem) => {
    expect(() => slack(url)).toThrow(problem)
    expect(() => slack(url)).not.toThrow('hunter2')
  })

  it.each([
    ['a line break', 'hunter2\nx-other: 1', "The header 'x-key' of the target 'webhook' cannot be sent."],
    ['a character that headers have not', 'hunter2 ключ', 'cannot be sent.'],
    ['no value', undefined, 'Is the variable that it reads not set?'],
  ])('refuses a header with %s, and does not repeat it', (_, value, problem) => {
    const headers = { 'x-key': value as string }
    expect(() => webhook('https://example.com', { headers })).toThrow(problem)
    expect(() => webhook('https://example.com', { headers })).not.toThrow('hunter2')
  })

  it('takes HTTP on this machine, and elsewhere if it is allowed', () => {
    for (const url of ['http://localhost:1/x', 'http://127.0.0.1/x', 'http://[::1]:1/x'])
      expect(() => webhook(url)).not.toThrow()
    expect(() => webhook('http://127.0.0.1.example.com/')).toThrow('https')
    expect(() => webhook('http://collector/', { allowHttp: true })).not.toThrow()
  })

  it('shows neither its URL nor its headers', () => {
    const target = webhook(`https://example.com/${SECRET}`, { headers: { authorization: SECRET } })
    expect(inspect(target, { depth: 9, showHidden: true }) + JSON.stringify(target)).not.toContain('hunter2')
  })

  it('does not repeat what the server says, which may be its URL', async () => {
    const { url } = await receiver(400)
    await old()
    await start({ to: webhook(url), oldestAge: '10m' })
    await expect.poll(async () => (await store.count({ kind: 'notify:webhook' })).dead).toBe(1)
    const { items } = await store.list({ kind: 'notify:webhook' }, { limit: 1 })
    expect(items[0]?.errorMessage).toBe('HttpError: The server answered 400 Bad Request')
    expect(JSON.stringify(await store.ledger(items[0]?.id ?? ''))).not.toContain(SECRET)
  })

  it('has a name of its own', () => {
    const url = 'https://example.com'
    expect(() => notify(store, { to: [slack(url), slack(url)] })).toThrow(`Two targets are called 'slack'`)
    expect(() => notify(store, { to: [slack(url), slack(url, { name: 'on-call' })] })).not.toThrow()
    expect(() => notify(store, { to: [] })).toThrow('slack() or webhook()')
  })
})

describe('missed slots', () => {
  const HOUR = 3_600_000

  /** Schedules that miss three slots each, found by one firing. */
  async function missBy(...names: string[]) {
    const clock = fakeClock(Date.parse('2027-03-01T00:30:00Z'))
    const missing = new MemoryStore({ clock })
    const specs = names.map((name): ScheduleSpec => {
      const task = { kind: 'report', payload: 'null' }
      const rules = { catchUp: 'last', catchUpWithinMs: 24 * HOUR, overlap: 'allow', spreadMs: 0 } as const
      return { name, times: { cron: '0 * * * *' }, timeZone: 'UTC', task, ...rules }
    })
    await missing.schedules.declare(specs, { worker: 'w' }, timetable)
    await clock.advance(4 * HOUR)
    await missing.schedules.fire(100, timetable)
    return { clock, missing }
  }

  it('are told once per schedule, with the command that shows them', async () => {
    const { received, url } = await receiver()
    const { clock, missing } = await missBy('nightly')
    const notifier = await start({ to: webhook(url), clock }, missing)
    await start({ to: webhook(url), clock }, missing)
    await expect.poll(() => received.length).toBe(1)
    expect(received[0]?.body).toMatchObject({
      type: 'slots_missed',
      text: 'Slots of nightly were missed, from 2027-03-01 01:00 UTC to 2027-03-01 03:00 UTC: a later slot was due by then, and only the last one runs. To see them, run: redrive schedule show nightly',
      facts: { schedule: 'nightly', from: '2027-03-01T01:00:00.000Z', to: '2027-03-01T03:00:00.000Z' },
    })
    await notifier.look()
    expect((await missing.count({ kind: 'notify:webhook' })).succeeded).toBe(1)
  })

  it('of many schedules are told in one message, and not at all without `schedules`', async () => {
    const { received, url } = await receiver()
    const { clock, missing } = await missBy(...Array.from({ length: 11 }, (_, n) => `s${n + 10}`))
    await start({ to: webhook(url), clock, schedules: false }, missing)
    expect((await missing.count({})).waiting).toBe(11)
    await start({ to: webhook(url), clock }, missing)
    await expect.poll(() => received.length).toBe(1)
    expect(received[0]?.body).toMatchObject({
      text: '11 schedules missed slots from 2027-03-01 01:00 UTC to 2027-03-01 03:00 UTC: s10, s11, s12, s13, s14, …. To list them, run: redrive schedule ls',
      facts: { schedules: 11 },
    })
  })
})
