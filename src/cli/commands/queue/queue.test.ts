import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import amqplib from 'amqplib'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { quietEnvironment, runCommand } from '../../../../test/command.js'
import { ownSpace } from '../../../../test/services/own-space.js'
import { BROKER_MS, sharedBroker } from '../../../../test/services/shared-broker.js'
import { type Bus, type Message, type NewMessage, textOf } from '../../../bus/index.js'
import { type ConsumeOptions, consume } from '../../../event/index.js'
import { RetryableError } from '../../../policy/index.js'
import { MemoryStore } from '../../../store/index.js'
import type { Environment } from '../../environment.js'
import { openBus } from '../shared/open-bus.js'

const MAIN = new URL('../../main.ts', import.meta.url).pathname
const TSX = import.meta.resolve('tsx')
const TERMINAL = { isTTY: { stdin: true, stdout: true, stderr: true }, columns: 80 }

const TYPE = 'json.parsed'
const event = (number: number) => ({ event_type: 'JSONParsed', data: { number } })
const letter = (number: number) =>
  JSON.stringify({
    original_event: event(number),
    attempt_count: 8,
    last_error: `DocumentNotFoundError: document ${number} is not there yet`,
    abandoned_reason: 'max_attempts_exceeded',
    timestamp: new Date().toISOString(),
  })

describe.each(['rabbitmq', 'nats'] as const)('the failed queues of %s', broker => {
  let folder: string
  let env: Environment['env']
  let bus: Bus
  beforeEach(async ({ skip }) => {
    const shared = await sharedBroker(broker)
    if (shared.httpUrl === undefined) skip('It needs a server of our own, with its management.')
    folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
    env = { REDRIVE_BUS: await ownSpace(broker, shared), REDRIVE_BUS_MONITOR: shared.httpUrl }
    bus = await openBus({}, quietEnvironment({ env }))
    await bus.declare({ chunking: TYPE, search: TYPE })
  }, BROKER_MS)
  afterEach(async () => {
    await bus?.close()
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
  })

  const redrive = (argv: readonly string[], overrides: Partial<Environment> = {}) =>
    runCommand(argv, { env, cwd: folder, ...overrides })

  async function fail(bodies: readonly NewMessage['body'][], queue = 'chunking.failed') {
    for (const [index, body] of bodies.entries()) await bus.put(queue, { id: `event-${index + 1}`, type: TYPE, body })
  }

  async function left(queue = 'chunking.failed'): Promise<Message[]> {
    const messages: Message[] = []
    for await (const message of bus.browse(queue)) messages.push(message)
    return messages
  }

  async function count(queue: string, type = TYPE): Promise<number | undefined> {
    return (await bus.status({ [queue]: type }))[0]?.messages
  }

  /** Drains a queue, and returns its messages. */
  async function drain(queue: string, expected: number): Promise<Message[]> {
    const messages: Message[] = []
    const consumer = await bus.consume(queue, delivery => {
      messages.push(delivery)
      delivery.ack()
    })
    await vi.waitFor(() => expect(messages.length).toBeGreaterThanOrEqual(expected), { timeout: 10_000 })
    await consumer.stop()
    return messages
  }

  /** A failed queue without a queue beside it. */
  async function orphan(queue: string): Promise<void> {
    await bus.declare({ [queue]: 'orphan.type' })
    const url = new URL(env.REDRIVE_BUS ?? '')
    if (broker === 'rabbitmq') {
      const connection = await amqplib.connect(url.href)
      await (await connection.createChannel()).deleteQueue(queue)
      await connection.close()
    } else {
      const connection = await connect({ servers: url.host })
      const manager = await jetstreamManager(connection)
      await manager.streams.delete(`${url.searchParams.get('prefix')}+orphan+type`)
      await connection.close()
    }
  }

  describe('ls', () => {
    it('shows the failed queues that are there, how much is in each, and where it would go', async () => {
      await orphan('parsing')
      await orphan('legacy')
      await fail([letter(1), letter(2)])
      const ls = ['queue', 'ls', '--preset', 'documents']
      const { code, out, err } = await redrive([...ls, '--output', 'json'])
      expect({ code, err }).toEqual({ code: 0, err: '' })
      expect(JSON.parse(out)).toEqual([
        { name: 'chunking.failed', messages: 2, route: { queue: 'chunking', type: TYPE } },
        { name: 'legacy.failed', messages: 0, route: null },
        { name: 'parsing.failed', messages: 0, route: { queue: null, type: 'archive.ingested' } },
        { name: 'search.failed', messages: 0, route: { queue: 'search', type: TYPE } },
      ])
      expect((await redrive(ls)).out).toBe(
        [
          'FAILED QUEUE     MESSAGES  REQUEUED TO',
          'chunking.failed  2         chunking',
          'legacy.failed    0         pass --target-queue',
          'parsing.failed   0         every queue for archive.ingested',
          'search.failed    0         search\n',
        ].join('\n'),
      )
    })

    it('takes the preset from --preset, else from REDRIVE_PRESET, and knows its routes with it alone', async () => {
      await orphan('parsing')
      const routeOf = async (flags: readonly string[], more: Environment['env'] = {}) => {
        const { json } = await redrive(['queue', 'ls', '--output', 'json', ...flags], { env: { ...env, ...more } })
        return json().find(({ name }: { name: string }) => name === 'parsing.failed').route
      }
      expect(await routeOf([])).toBeNull()
      expect(await routeOf([], { REDRIVE_PRESET: 'documents' })).toEqual({ queue: null, type: 'archive.ingested' })
      expect(await routeOf(['--preset', 'calls'], { REDRIVE_PRESET: 'documents' })).toBeNull()
      expect(await redrive(['queue', 'ls', '--preset', 'nope'])).toMatchObject({
        code: 2,
        err: expect.stringContaining("There is no preset 'nope'"),
      })
    })

    it('answers to its older name too, as do the other commands', async () => {
      await fail([letter(1)])
      for (const [older, name] of [
        [['list'], ['ls']],
        [
          ['inspect', 'chunking.failed'],
          ['show', 'chunking.failed'],
        ],
      ] as const) {
        const expected = await redrive(['queue', ...name, '--output', 'json'])
        expect(expected.code).toBe(0)
        expect((await redrive(['queue', ...older, '--output', 'json'])).out).toBe(expected.out)
      }
    })
  })

  describe('show', () => {
    it('shows each message once, oldest first, as often as one looks, and leaves them there', async () => {
      const bodies = Array.from({ length: 25 }, (_, index) => `{"number":${index}}`)
      await fail(bodies)
      for (let look = 0; look < 3; look++) {
        const { code, json } = await redrive(['queue', 'show', 'chunking.failed', '--limit', '50', '--output', 'json'])
        expect(code).toBe(0)
        expect(json().map(({ body }: { body: unknown }) => JSON.stringify(body))).toEqual(bodies)
      }
      const { out, err } = await redrive(['queue', 'show', 'chunking.failed', '--limit', '2', '--output', 'jsonl'])
      expect(
        out
          .trim()
          .split('\n')
          .map(line => JSON.parse(line).id),
      ).toEqual(['event-1', 'event-2'])
      expect(err).toBe('2 of 25, oldest first. For all of them, pass --limit 25.\n')
      expect((await left()).map(textOf)).toEqual(bodies)
    })

    it('shows people no secrets of an event or an error, and machines all of it', async () => {
      const original_event = { to: 'ada', password: 'hunter2', tokens: ['hunter3'] }
      const last_error = 'Error: connect postgres://app:hunter4@db failed'
      await fail([JSON.stringify({ original_event, last_error }), 'Cookie: sid=hunter5', '{"pass":"hunter6"}'])
      const { out } = await redrive(['queue', 'show', 'chunking.failed'])
      expect(out).not.toContain('hunter')
      expect(out).toContain('Error: connect postgres://app:[redacted]@db failed')
      expect(out).toContain('{"to":"ada","password":[redacted],"tokens":[redacted]}')
      const { json } = await redrive(['queue', 'show', 'chunking.failed', '--output', 'json'])
      expect(json()[0].body).toEqual({ original_event, last_error })
    })

    it('shows an error that is no text', async () => {
      const last_error = { toString: 1, code: 'E_ODD' }
      await fail([JSON.stringify({ original_event: 1, last_error, attempt_count: { toString: 1 } })])
      const { code, out } = await redrive(['queue', 'show', 'chunking.failed'])
      expect(code).toBe(0)
      expect(out).toContain('"code":"E_ODD"')
    })

    it('shows why an event failed and what it was, within 80 columns, and nothing raw', async () => {
      await fail([letter(7), 'no JSON \x1b[31mred\x07\x9b2J', `"${'long '.repeat(50)}"`, new Uint8Array([0xff, 0, 1])])
      const { out, err } = await redrive(['queue', 'show', 'chunking.failed'], {
        ...TERMINAL,
        env: { ...env, NO_COLOR: '1' },
      })
      expect(out).toContain('max_attempts_exceeded')
      expect(out).toContain('8 attempts: DocumentNotFoundError: document 7 is not there yet')
      expect(out).toContain(JSON.stringify(event(7)))
      expect(out).toContain('no JSON \\x1b[31mred\\x07\\x9b2J')
      expect(out).toContain('3 bytes that are not text')
      expect(out + err).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/)
      for (const line of `${out}${err}`.split('\n')) expect(line.length).toBeLessThanOrEqual(80)

      const asJson = await redrive(['queue', 'show', 'chunking.failed', '--output', 'jsonl'])
      expect(asJson.out).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/)
    })

    it('says that a queue is empty, does not exist, or is not a failed queue', async () => {
      expect(await redrive(['queue', 'show', 'chunking.failed'])).toMatchObject({
        code: 0,
        err: "'chunking.failed' is empty.\n",
      })
      expect(await redrive(['queue', 'show', 'nope.failed'])).toMatchObject({
        code: 1,
        err: "redrive: There is no failed queue 'nope.failed'. To list failed queues, run: redrive queue ls\n",
      })
      expect(await redrive(['queue', 'show', 'chunking'])).toMatchObject({
        code: 1,
        err: "redrive: 'chunking' is not a failed queue. Did you mean 'chunking.failed'? To list failed queues, run: redrive queue ls\n",
      })
    })
  })

  it('groups messages that failed in the same way, as of the look, and leaves them there', async () => {
    await fail([letter(1), letter(2), 'not JSON', letter(3)])
    const { code, lines, err } = await redrive(['queue', 'groups', 'chunking.failed'])
    expect(code).toBe(0)
    expect(lines()).toEqual([
      expect.stringMatching(/^COUNT +KIND +CODE +FAILURE +EXAMPLE$/),
      expect.stringMatching(
        /^3 +json\.parsed +max_attempts_exceeded +DocumentNotFoundError: document \* is not there yet +event-1$/,
      ),
      expect.stringMatching(/^1 +json\.parsed +- +\(no error on record\) +event-3$/),
    ])
    expect(err).toMatch(/^As of \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ: 2 groups of 4 of 4\.\n$/)
    expect((await redrive(['queue', 'groups', 'chunking.failed', '--limit', '1'])).err).toContain('pass --limit 4.')
    expect(await left()).toHaveLength(4)

    const store = ['--store', 'sqlite:redrive.db']
    await redrive(['migrate', ...store])
    await redrive(['groups', 'rule', 'add', 'document {*} is not there yet', ...store])
    const ruled = await redrive(['queue', 'groups', 'chunking.failed', ...store, '--output', 'json'])
    const patterns = ruled.json().map(({ pattern }: { pattern: string }) => pattern)
    const apart = [1, 2, 3].map(n => `document ${n} is not there yet`)
    expect(patterns.sort()).toEqual(['', ...apart])
  })

  describe('export', () => {
    it('writes a file that its owner alone can read, whatever the umask', async () => {
      await fail([letter(1)])
      const umask = process.umask(0)
      await redrive(['queue', 'export', 'chunking.failed', 'failed.json'])
      process.umask(umask)
      expect((statSync(join(folder, 'failed.json')).mode & 0o777).toString(8)).toBe('600')
    })

    it('writes all messages to a new file, whatever their bodies are, and leaves them there', async () => {
      const bytes = new Uint8Array([0xff, 0, 1])
      await fail([letter(1), 'no JSON \x9b2J', bytes])
      const { code, out, err } = await redrive(['queue', 'export', 'chunking.failed', 'failed.json'])
      expect({ code, out }).toEqual({ code: 0, out: '' })
      expect(err).toBe('3 of 3 exported. They are still in the queue.\n')
      const text = readFileSync(join(folder, 'failed.json'), 'utf8')
      expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/)
      const { export_timestamp, ...rest } = JSON.parse(text)
      expect(Math.abs(Date.parse(export_timestamp) - Date.now())).toBeLessThan(60_000)
      expect(export_timestamp).toMatch(/Z$/)
      const about = { type: TYPE, headers: {} }
      expect(rest).toEqual({
        queue: 'chunking.failed',
        total_messages_in_queue: 3,
        messages_exported: 3,
        messages: [
          {
            id: 'event-1',
            ...about,
            body: JSON.parse(letter(1), (key, value) => (key === 'timestamp' ? expect.any(String) : value)),
          },
          { id: 'event-2', ...about, raw_body: 'no JSON \x9b2J' },
          { id: 'event-3', ...about, raw_body: Buffer.from(bytes).toString('base64'), encoding: 'base64' },
        ],
      })
      expect(await left()).toHaveLength(3)

      const again = await redrive(['queue', 'export', 'chunking.failed', 'failed.json'])
      expect(again).toMatchObject({
        code: 1,
        err: "redrive: 'failed.json' exists already. Name another file. 0 exported.\n",
      })
      expect(readFileSync(join(folder, 'failed.json'), 'utf8')).toBe(text)
    })

    it('writes numbers as they were published, and so do show and requeue', async () => {
      const numbers = '"id":9007199254740993,"one":1.0'
      // As another program may write it: with its fields in another order.
      await fail([`{"attempt_count":1,"original_event":{${numbers}},"last_error":"E: broken"}`])
      const exported = await redrive(['queue', 'export', 'chunking.failed', '-'])
      expect(exported.out).toContain(`"original_event":{${numbers}}`)
      const shown = await redrive(['queue', 'show', 'chunking.failed', '--output', 'jsonl'])
      expect(shown.out).toContain(`"original_event":{${numbers}}`)
      expect((await redrive(['queue', 'show', 'chunking.failed'])).out).toContain(`{${numbers}}`)
      await redrive(['queue', 'requeue', 'chunking.failed'])
      expect((await drain('chunking', 1)).map(textOf)).toEqual([`{${numbers}}`])
    })

    it('writes to stdout what can be read again, without messages too', async () => {
      expect((await redrive(['queue', 'export', 'chunking.failed', '-'])).json()).toMatchObject({
        messages_exported: 0,
        messages: [],
      })
      await fail(['{}', '{}'])
      const { json } = await redrive(['queue', 'export', 'chunking.failed', '-', '--limit', '1'])
      expect(json()).toMatchObject({ total_messages_in_queue: 2, messages_exported: 1, messages: [{ id: 'event-1' }] })
    })

    it('waits for a reader of stdout that is slower', async () => {
      await fail(['{}', '{}'])
      let isFull = false
      const stdout = {
        write: () => {
          if (isFull) throw new Error('written while there was no room')
          isFull = true
          return false
        },
        once: (_: 'drain', callback: () => void) =>
          setImmediate(() => {
            isFull = false
            callback()
          }),
      }
      expect((await redrive(['queue', 'export', 'chunking.failed', '-'], { stdout })).code).toBe(0)
    })

    it('makes no file for a queue that is not there', async () => {
      expect((await redrive(['queue', 'export', 'nope.failed', 'failed.json'])).code).toBe(1)
      expect(existsSync(join(folder, 'failed.json'))).toBe(false)
    })
  })

  describe('requeue', () => {
    it('publishes the original events, and other bodies as they are, into the queue that failed on them alone', async () => {
      const bytes = new Uint8Array([0xff, 0, 1])
      await fail([letter(1), 'no JSON', bytes, '{"plain":true}'])
      const { code, out, err } = await redrive(['queue', 'requeue', 'chunking.failed'])
      expect({ code, out, err }).toEqual({ code: 0, out: '', err: "4 requeued to 'chunking'.\n" })
      const messages = await drain('chunking', 4)
      expect(messages.map(({ body }) => Buffer.from(body))).toEqual([
        Buffer.from(JSON.stringify(event(1))),
        Buffer.from('no JSON'),
        Buffer.from(bytes),
        Buffer.from('{"plain":true}'),
      ])
      expect(messages.map(({ type }) => type)).toEqual([TYPE, TYPE, TYPE, TYPE])
      expect(await left()).toEqual([])
      await bus.publish({ id: 'for all', type: TYPE, body: 'for all' })
      expect((await drain('search', 1)).map(textOf)).toEqual(['for all'])
    })

    it('publishes under another id, which is the same if it is done twice, and never grows', async () => {
      const dies = async (id: string, body: string) => {
        await bus.put('chunking.failed', { id, type: TYPE, body })
        await redrive(['queue', 'requeue', 'chunking.failed'])
        return (await drain('chunking', 1)).map(({ id }) => id)[0] ?? ''
      }
      const body = letter(1)
      const first = await dies('event-1', body)
      expect(first).toMatch(/^event-1\.again-[0-9a-f]{16}$/)
      expect(await dies('event-1', body)).toBe(first)
      const second = await dies(first, body)
      expect(second).toMatch(/^event-1\.again-[0-9a-f]{16}$/)
      expect(second).not.toBe(first)
      expect(await dies('é'.repeat(120), body)).toMatch(/^[0-9a-f]{64}$/)
    })

    it('gives an event that a consumer gave up a fresh set of attempts', async () => {
      const store = new MemoryStore()
      let isWell = false
      const attempts: number[] = []
      const options: ConsumeOptions<ReturnType<typeof event>> = {
        service: 'chunking',
        key: ({ data }) => [String(data.number)],
        store,
        policy: { attempts: 2, backoff: { kind: 'fixed', base: '10ms' } },
        deadLetters: 'failed-queue',
        handler: (_, { attempt }) => {
          attempts.push(attempt)
          if (!isWell || attempt === 1) throw new RetryableError('not there yet')
        },
      }
      const consumer = await consume(bus, 'chunking', options)
      await bus.publish({ id: 'event-1', type: TYPE, body: JSON.stringify(event(1)) })
      await vi.waitFor(async () => expect(await left()).toHaveLength(1), { timeout: 10_000 })
      isWell = true
      await redrive(['queue', 'requeue', 'chunking.failed'])
      await vi.waitFor(() => expect(attempts).toEqual([1, 2, 1, 2]), { timeout: 10_000 })
      await consumer.stop()
      await store.close()
      expect(await left()).toEqual([])
    })

    it('publishes to every queue for the type that the preset names', async () => {
      await orphan('parsing')
      await bus.declare({ first: 'archive.ingested', second: 'archive.ingested' })
      await fail([letter(1)], 'parsing.failed')
      const { code, json, err } = await redrive([
        'queue',
        'requeue',
        'parsing.failed',
        '--preset',
        'documents',
        '--output',
        'json',
      ])
      expect({ code, err }).toEqual({ code: 0, err: "1 requeued to every queue for 'archive.ingested'.\n" })
      expect(json()).toEqual({
        queue: 'parsing.failed',
        route: { queue: null, type: 'archive.ingested' },
        requeued: 1,
        duplicates: 0,
        kept: [],
        isStopped: false,
        operation: null,
      })
      for (const queue of ['first', 'second']) {
        expect(await drain(queue, 1)).toMatchObject([{ type: 'archive.ingested' }])
      }
    })

    it('publishes into another queue that is named', async () => {
      await bus.declare({ slow: 'slow.work' })
      await fail([letter(1)])
      expect((await redrive(['queue', 'requeue', 'chunking.failed', '--target-queue', 'slow'])).code).toBe(0)
      expect(await drain('slow', 1)).toMatchObject([{ type: 'slow.work' }])
    })

    it.each([
      [['legacy.failed'], "No route is known for 'legacy.failed'. Pass --target-queue. 0 requeued."],
      [
        ['parsing.failed'],
        "No route is known for 'parsing.failed'. Pass --preset documents or --target-queue. 0 requeued.",
      ],
      [['legacy.failed', '--target-queue', 'nope'], "There is no queue 'nope'. 0 requeued."],
      [
        ['legacy.failed', '--target-queue', 'search.failed'],
        "'search.failed' is a failed queue: nothing consumes it. 0 requeued.",
      ],
      [
        ['nope.failed', '--target-queue', 'chunking'],
        "There is no failed queue 'nope.failed'. To list failed queues, run: redrive queue ls",
      ],
    ])('refuses %j, and moves nothing', async (argv, text) => {
      await orphan('legacy')
      await orphan('parsing')
      await fail([letter(1)], 'legacy.failed')
      for (const more of [[], ['--dry-run']]) {
        const { code, out, err } = await redrive(['queue', 'requeue', ...argv, ...more])
        expect({ code, out, err }).toEqual({ code: 1, out: '', err: `redrive: ${text}\n` })
      }
      expect(await left('legacy.failed')).toHaveLength(1)
    })

    it('keeps what it could not publish, and says so', async () => {
      await orphan('parsing')
      await fail([letter(1), letter(2)], 'parsing.failed')
      const { code, err } = await redrive(['queue', 'requeue', 'parsing.failed', '--preset', 'documents'])
      expect(code).toBe(1)
      expect(err).toContain('0 requeued before it failed. The rest is still in the queue.\n')
      expect(err).toContain("There is no queue for 'archive.ingested'")
      expect(await left('parsing.failed')).toHaveLength(2)
    })

    it('takes the oldest with --limit, and none in a dry run', async () => {
      await fail([letter(1), letter(2), letter(3)])
      const dry = await redrive(['queue', 'requeue', 'chunking.failed', '--limit', '2', '--dry-run'])
      expect(dry).toMatchObject({
        code: 0,
        err: "2 would be requeued to 'chunking'. This was a dry run: 0 requeued.\n",
      })
      expect(await left()).toHaveLength(3)
      await redrive(['queue', 'requeue', 'chunking.failed', '--limit', '2'])
      expect((await left()).map(({ id }) => id)).toEqual(['event-3'])
    })

    it('stopped by Ctrl-C after a message, it says how many it requeued and ends with 3; the rest is there', async () => {
      const total = 300
      await fail(Array.from({ length: total }, (_, index) => letter(index)))
      const onSignal = (send: (signal: string) => void) => {
        const timer = setInterval(async () => {
          if (((await count('chunking')) ?? 0) > 0) send('SIGINT')
        }, 5)
        return () => clearInterval(timer)
      }
      const { code, json, err } = await redrive(['queue', 'requeue', 'chunking.failed', '--output', 'json'], {
        onSignal,
      })
      const { requeued, isStopped } = json()
      expect({ code, isStopped }).toEqual({ code: 3, isStopped: true })
      expect(requeued).toBeGreaterThan(0)
      expect(requeued).toBeLessThan(total)
      expect(err).toContain('SIGINT: stopping after this message.\n')
      expect(err).toContain(
        `${requeued} requeued to 'chunking'.\nStopped. The rest is still in the queue. To go on, run the same command again.\n`,
      )
      expect(await left()).toHaveLength(total - requeued)
      expect(await drain('chunking', requeued)).toHaveLength(requeued)
    })

    it('killed half-way, it has lost nothing, and the rest keeps its order', { timeout: 60_000 }, async () => {
      const total = 1000
      await fail(Array.from({ length: total }, (_, index) => letter(index)))
      const argv = ['--import', TSX, MAIN, 'queue', 'requeue', 'chunking.failed']
      const child = spawn(process.execPath, argv, { cwd: folder, env: { ...process.env, ...env }, stdio: 'ignore' })
      const ended = new Promise(resolve => child.on('close', resolve))
      await vi.waitFor(async () => expect(await count('chunking')).toBeGreaterThan(20), {
        timeout: 30_000,
        interval: 5,
      })
      child.kill('SIGKILL')
      await ended
      const numberOf = (message: Message) => JSON.parse(textOf(message)).original_event.data.number
      // The broker may take a moment to notice.
      const rest = await vi.waitFor(
        async () => {
          const numbers = (await left()).map(numberOf)
          expect(numbers.at(-1)).toBe(total - 1)
          expect(numbers).toEqual(Array.from(numbers, (_, index) => total - numbers.length + index))
          return numbers
        },
        { timeout: 20_000, interval: 200 },
      )
      expect(rest.length).toBeLessThan(total)
      const moved = await drain('chunking', total - rest.length)
      const all = new Set([...rest, ...moved.map(message => JSON.parse(textOf(message)).data.number)])
      expect(all.size).toBe(total)
      expect(moved.length, 'one at most is published twice').toBeLessThanOrEqual(total - rest.length + 1)
    })

    describe('on record', () => {
      const onRecord = {
        get env() {
          return { ...env, REDRIVE_STORE: 'sqlite:redrive.db' }
        },
      }
      beforeEach(async () => {
        await redrive(['migrate', '--store', 'sqlite:redrive.db'])
      })
      const shown = async (id: string) => (await redrive(['ops', 'show', id, '--output', 'json'], onRecord)).json()

      it('says who asked, why, and how far it came', async () => {
        await fail([letter(1), letter(2)])
        const argv = ['queue', 'requeue', 'chunking.failed', '--rate', '100/s', '--why', 'the parser is fixed']
        const { code, err, json } = await redrive([...argv, '--output', 'json'], { ...onRecord, user: 'ann' })
        expect({ code, err }).toEqual({ code: 0, err: "2 requeued to 'chunking'.\n" })
        expect(await shown(json().operation)).toMatchObject({
          act: 'requeue',
          status: 'done',
          who: 'ann',
          why: 'the parser is fixed',
          set: { queue: 'chunking.failed', bus: bus.address, route: { queue: 'chunking', type: TYPE }, count: 2 },
          settings: { perSecond: 100 },
          moved: 2,
          left: 0,
          outcome: '2 requeued.',
        })
        const undone = await redrive(['ops', 'undo', json().operation, '--yes'], onRecord)
        expect(undone).toMatchObject({
          code: 2,
          err: expect.stringContaining('is a requeue of messages, which cannot'),
        })
      })

      it('left to a consumer with --detach, it is carried out by one that has the store', async () => {
        await fail([letter(1), letter(2)])
        const argv = ['queue', 'requeue', 'chunking.failed', '--detach', '--output', 'json']
        const { code, err, json } = await redrive(argv, onRecord)
        expect(code).toBe(0)
        expect(err).toContain(
          'A running consumer of this bus that uses this store carries it out. To do it here, run: redrive ops continue op-',
        )
        const { id } = json().operation
        expect(await left()).toHaveLength(2)
        expect(await redrive(['ops', 'continue', id], onRecord)).toMatchObject({ code: 0 })
        expect(await shown(id)).toMatchObject({ status: 'done', moved: 2 })
      })

      it('killed half-way, it is continued to its end, and nothing is lost', { timeout: 90_000 }, async () => {
        const total = 1000
        await fail(Array.from({ length: total }, (_, index) => letter(index)))
        const argv = ['--import', TSX, MAIN, 'queue', 'requeue', 'chunking.failed']
        const given = { ...process.env, ...onRecord.env }
        const child = spawn(process.execPath, argv, { cwd: folder, env: given, stdio: 'ignore' })
        const ended = new Promise(resolve => child.on('close', resolve))
        await vi.waitFor(async () => expect(await count('chunking')).toBeGreaterThan(150), {
          timeout: 40_000,
          interval: 5,
        })
        child.kill('SIGKILL')
        await ended
        const [{ id, moved, status }] = (await redrive(['ops', 'ls', '--output', 'json'], onRecord)).json()
        expect(status).toBe('running')
        expect(moved).toBeGreaterThan(0)
        const again = await redrive(['queue', 'requeue', 'chunking.failed'], onRecord)
        expect(again).toMatchObject({ code: 1, err: expect.stringContaining(`redrive ops continue ${id}`) })
        const { code, err } = await redrive(['ops', 'continue', id], onRecord)
        expect({ code, err }).toMatchObject({
          code: 0,
          err: expect.stringMatching(/^\d+ requeued now, \d+ in all\.$/m),
        })
        expect(await shown(id)).toMatchObject({ status: 'done' })
        const requeued = await drain('chunking', total)
        const numbers = new Set(requeued.map(message => JSON.parse(textOf(message)).data.number))
        expect(Array.from({ length: total }, (_, index) => index).filter(number => !numbers.has(number))).toEqual([])
      })

      it('stopped by another operator, it says so, and goes on with ops continue', async () => {
        await fail(Array.from({ length: 30 }, (_, index) => letter(index)))
        const requeue = redrive(['queue', 'requeue', 'chunking.failed', '--rate', '20/s', '--output', 'json'], onRecord)
        await vi.waitFor(async () => expect(await count('chunking')).toBeGreaterThan(2), { timeout: 10_000 })
        const [{ id }] = (await redrive(['ops', 'ls', '--open', '--output', 'json'], onRecord)).json()
        await redrive(['ops', 'stop', id], onRecord)
        const { code, json } = await requeue
        expect({ code, ...json() }).toMatchObject({ code: 3, isStopped: true, operation: id })
        const { moved, left: unread } = await shown(id)
        expect(moved).toBe(await count('chunking'))
        expect(moved + unread).toBe(30)
        const elsewhere = { env: { ...onRecord.env, REDRIVE_BUS: env.REDRIVE_BUS?.replace('127.0.0.1', 'localhost') } }
        const wrong = await redrive(['ops', 'continue', id], elsewhere)
        expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining(`${id} is about ${bus.address}, not `) })
        expect((await shown(id)).status).toBe('stopped')
        expect((await redrive(['ops', 'continue', id], onRecord)).code).toBe(0)
        expect(await count('chunking')).toBe(30)
        expect(await left()).toEqual([])
      })
    })
  })

  describe('purge', () => {
    it('removes nothing and ends with 1 unless it is confirmed', async () => {
      await fail(['1', '2'])
      expect(await redrive(['queue', 'purge', 'chunking.failed'])).toMatchObject({
        code: 1,
        out: '',
        err: "redrive: This would remove 2 messages from 'chunking.failed' for good. To confirm, pass --yes. 0 removed.\n",
      })
      expect(await redrive(['queue', 'purge', 'chunking.failed', '--dry-run', '--yes'])).toMatchObject({
        code: 0,
        err: "2 would be removed from 'chunking.failed'. This was a dry run: 0 removed.\n",
      })
      expect(await left()).toHaveLength(2)
    })

    it('removes the oldest with --limit, and all without', async () => {
      await fail(['1', '2', '3'])
      expect(await redrive(['queue', 'purge', 'chunking.failed', '--limit', '2', '--yes'])).toMatchObject({
        code: 0,
        err: "2 removed from 'chunking.failed'.\n",
      })
      expect((await left()).map(textOf)).toEqual(['3'])
      const { json } = await redrive(['queue', 'purge', 'chunking.failed', '--confirm', '--output', 'json'])
      expect(json()).toEqual({ queue: 'chunking.failed', removed: 1, isStopped: false })
      expect(await left()).toEqual([])
    })

    it.each([
      ['y', 0, 0],
      ['n', 1, 2],
      ['', 1, 2],
    ])('asks on a terminal, and takes %j for what it is', async (answer, code, rest) => {
      await fail(['1', '2'])
      const questions: string[] = []
      const prompt = async (question: string) => {
        questions.push(question)
        return answer
      }
      expect(await redrive(['queue', 'purge', 'chunking.failed'], { ...TERMINAL, prompt })).toMatchObject({ code })
      expect(questions).toEqual(["Remove 2 messages from 'chunking.failed' for good? [y/N] "])
      expect(await left()).toHaveLength(rest)
    })
  })

  it.runIf(broker === 'rabbitmq')(
    'what others put there with headers that no bus takes stays, and the rest goes on',
    async () => {
      const connection = await amqplib.connect(env.REDRIVE_BUS ?? '')
      const channel = await connection.createConfirmChannel()
      channel.sendToQueue('chunking.failed', Buffer.from('{"bad":1}'), {
        headers: { 'not a name': 'x' },
        messageId: 'odd',
      })
      channel.sendToQueue('chunking.failed', Buffer.from('{"good":1}'))
      await channel.waitForConfirms()
      await connection.close()
      const { code, err } = await redrive(['queue', 'requeue', 'chunking.failed'])
      expect(code).toBe(3)
      expect(err).toMatch(/^'odd' was kept: A header cannot be called 'not a name'/)
      expect(err).toContain("1 requeued to 'chunking'.")
      expect((await left()).map(({ id }) => id)).toEqual(['odd'])
      expect(await drain('chunking', 1)).toMatchObject([{ type: TYPE, body: Buffer.from('{"good":1}') }])
    },
  )

  it.runIf(broker === 'rabbitmq')(
    'an id that others gave it breaks neither the table nor a line, however long, and is exact in JSON',
    async () => {
      const messageId = `a\nredrive: 5 moved.\x1b[2J\u202e${'x'.repeat(200)}`
      const connection = await amqplib.connect(env.REDRIVE_BUS ?? '')
      const channel = await connection.createConfirmChannel()
      channel.sendToQueue('chunking.failed', Buffer.from(letter(1)), { messageId, headers: { 'not a name': 'x' } })
      await channel.waitForConfirms()
      await connection.close()
      for (const columns of [40, 80]) {
        const terminal = { ...TERMINAL, columns, env: { ...env, NO_COLOR: '1' } }
        const shown = await redrive(['queue', 'show', 'chunking.failed'], terminal)
        const requeued = await redrive(['queue', 'requeue', 'chunking.failed'], terminal)
        const text = shown.out + shown.err + requeued.err
        expect(text).not.toMatch(/[^\P{Cc}\n]|\u202e/u)
        const lines = text.split('\n')
        expect(lines.filter(line => line.length > columns || line.startsWith('redrive: 5'))).toEqual([])
        expect(requeued.err).toMatch(/^'a\\nredrive: 5/)
        expect(requeued.err.length).toBeLessThan(400)
      }
      const { json } = await redrive(['queue', 'show', 'chunking.failed', '--output', 'json'])
      expect(json()[0].id).toBe(messageId)
    },
  )

  it.runIf(broker === 'rabbitmq')(
    'without the management, what stands beside its queue is found all the same',
    async () => {
      await bus.declare({ orders: 'order.placed' })
      await bus.put('orders.failed', { id: 'order-1', type: 'order.placed', body: letter(1) })
      const without = { env: { REDRIVE_BUS: env.REDRIVE_BUS } }
      const list = await redrive(['queue', 'ls', '--preset', 'documents', '--output', 'json'], without)
      expect(list.json().map(({ name }: { name: string }) => name)).toEqual(['chunking.failed'])
      expect(list.err).toContain('There may be more. RabbitMQ lists its queues only with --monitor')
      const nothing = await redrive(['queue', 'list', '--output', 'json'], without)
      expect(nothing).toMatchObject({ code: 2, out: '' })
      expect(nothing.err).toMatch(/^redrive: Which queues\? RabbitMQ lists its queues only with --monitor/)
      const none = await redrive(['queue', 'list', '--queue', 'nope=x'], without)
      expect(none.err).toMatch(/^None of the queues that --queue or the preset names has a failed queue\./)
      const given = await redrive(['queue', 'ls', '--queue', 'orders=order.placed', '--output', 'jsonl'], without)
      expect(given.out).toContain('"name":"orders.failed","messages":1')
      expect(await redrive(['queue', 'requeue', 'orders.failed'], without)).toMatchObject({ code: 0 })
      expect(await drain('orders', 1)).toMatchObject([{ type: 'order.placed' }])
    },
  )
})
