import amqplib from 'amqplib'
import { beforeAll, describe, expect, it } from 'vitest'
import { quietEnvironment, runCommand } from '../../../../test/command.js'
import type { BrokerUrls } from '../../../../test/services/broker.js'
import { ownSpace } from '../../../../test/services/own-space.js'
import { BROKER_MS, sharedBroker } from '../../../../test/services/shared-broker.js'
import { openBus } from '../shared/open-bus.js'

describe('the bus of a command', () => {
  it.each([
    ['queue', 'ls'],
    ['queue', 'show', 'x.failed'],
    ['queue', 'export', 'x.failed', '-'],
    ['queue', 'requeue', 'x.failed'],
    ['queue', 'purge', 'x.failed'],
    ['bus', 'doctor'],
  ])('must be named: %s %s', async (...argv) => {
    expect(await runCommand(argv)).toMatchObject({
      code: 2,
      out: '',
      err: "redrive: Which bus? Pass --bus or set REDRIVE_BUS, such as 'amqp://localhost' or 'nats://localhost'.\n",
    })
  })

  it('comes from --bus, else from REDRIVE_BUS', async () => {
    const env = { REDRIVE_BUS: 'nats://127.0.0.1:1' }
    expect((await runCommand(['queue', 'ls'], { env })).err).toContain('NATS at 127.0.0.1:1')
    const flag = ['--bus', 'amqp://127.0.0.1:2']
    expect((await runCommand(['queue', 'ls', ...flag], { env })).err).toContain('RabbitMQ at 127.0.0.1:2')
  })

  it.each([
    [['--bus', 'kafka://ada:secret@host'], "Buses of the kind 'kafka:' are not supported", 2],
    [['--bus', 'localhost'], 'The URL of the bus cannot be parsed', 2],
    [['--bus', 'amqp://ada:secret%@host'], 'The URL of the bus cannot be parsed', 2],
    [['--bus', 'amqp://ada:secret@host:port'], 'The URL of the bus cannot be parsed', 2],
    [['--bus', 'amqp://h', '--monitor', 'http://ada:secret%@host'], 'The URL of the monitor cannot be parsed', 2],
    [['--bus', 'amqp://ada:secret@127.0.0.1:1'], 'There is no connection to RabbitMQ at 127.0.0.1:1', 1],
    [['--bus', 'nats://ada:secret@127.0.0.1:1'], 'There is no connection to NATS at 127.0.0.1:1', 1],
  ])('%j is refused, and no password is repeated', async (flags, text, code) => {
    const { err, ...rest } = await runCommand(['queue', 'ls', ...flags])
    expect(rest).toMatchObject({ code, out: '' })
    expect(err).toContain(text)
    expect(err).not.toContain('secret')
  })

  it.each(['chunking', '=json.parsed', 'chunking='])('has no queue --queue %s', async queue => {
    const { code, err } = await runCommand(['queue', 'ls', '--bus', 'nats://h', '--queue', queue])
    expect(code).toBe(2)
    expect(err).toContain("such as 'chunking=json.parsed'")
  })
})

describe.each(['rabbitmq', 'nats'] as const)('bus doctor on %s', name => {
  let broker: BrokerUrls
  beforeAll(async () => {
    broker = await sharedBroker(name)
  }, BROKER_MS)

  async function declared() {
    const env = { REDRIVE_BUS: await ownSpace(name, broker), REDRIVE_BUS_MONITOR: broker.httpUrl }
    const bus = await openBus({}, quietEnvironment({ env }))
    await bus.declare({ chunking: 'json.parsed' })
    await bus.put('chunking.failed', { id: 'event-1', type: 'json.parsed', body: '{}' })
    await bus.close()
    return env
  }

  it('shows the queues, and ends with 0 where nothing loses a message', async ({ skip }) => {
    if (broker.httpUrl === undefined) skip('It needs a server of our own, with its management.')
    const env = await declared()
    const { code, out, err } = await runCommand(['bus', 'doctor'], { env })
    expect(code).toBe(0)
    expect(out).toMatch(/^QUEUE +TAKES +MESSAGES\nchunking +json\.parsed +0\nchunking\.failed +1\n/)
    expect(err).toMatch(/^0 errors, \d warnings?\.\n$/)
  })

  it('ends with 1 where a message will be lost, and says what to do', async ({ skip }) => {
    if (broker.httpUrl === undefined) skip('It needs a server of our own, with its management.')
    const env = await declared()
    const argv = ['bus', 'doctor', '--queue', 'nope=order.placed']
    const { code, err, json } = await runCommand([...argv, '--output', 'json'], { env })
    expect(code).toBe(1)
    expect(err).toMatch(/^2 errors, \d warnings?\.\n$/)
    expect(json().queues).toEqual([
      { name: 'chunking', type: 'json.parsed', isFailedQueue: false, messages: 0 },
      { name: 'chunking.failed', type: 'json.parsed', isFailedQueue: true, messages: 1 },
      { name: 'nope', type: 'order.placed', isFailedQueue: false, messages: null },
      { name: 'nope.failed', type: 'order.placed', isFailedQueue: true, messages: null },
    ])
    expect(json().findings).toContainEqual({
      code: 'missing',
      severity: 'error',
      subject: 'nope',
      message: expect.stringContaining('Declare it.'),
    })

    const terminal = { isTTY: { stdin: true, stdout: true, stderr: true }, columns: 80 }
    const { out } = await runCommand(argv, { env: { ...env, NO_COLOR: '1' }, ...terminal })
    expect(out).toMatch(/^nope +order\.placed +missing$/m)
    expect(out).toMatch(/^error +missing +nope\n {2}There is no queue 'nope'/m)
    for (const line of out.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  })

  it.runIf(name === 'rabbitmq')('needs to be told which queues there are, without the management', async ({ skip }) => {
    if (broker.httpUrl === undefined) skip('It needs a server of our own, with its management.')
    const { REDRIVE_BUS } = await declared()
    const env = { REDRIVE_BUS }
    expect(await runCommand(['bus', 'doctor'], { env })).toMatchObject({
      code: 2,
      err: expect.stringContaining('Which queues? Pass --queue name=type, or --monitor'),
    })
    const connection = await amqplib.connect(REDRIVE_BUS)
    await (await connection.createChannel()).assertQueue('limited', {
      durable: true,
      arguments: { 'x-queue-type': 'quorum', 'x-max-length': 10 },
    })
    await connection.close()
    const limited = await runCommand(['bus', 'doctor', '--queue', 'limited=x', '--output', 'jsonl'], { env })
    expect(limited.code).toBe(1)
    expect(limited.json().findings).toMatchObject([
      { code: 'length_limit', subject: 'limited' },
      { code: 'missing', subject: 'limited.failed' },
      { code: 'unseen', severity: 'warning' },
    ])
    const well = await runCommand(['bus', 'doctor', '--queue', 'chunking=json.parsed'], { env })
    expect(well).toMatchObject({ code: 0, err: '0 errors, 1 warning.\n' })
  })
})
