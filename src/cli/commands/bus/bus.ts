import type { Command } from 'commander'
import type { Finding, QueueStatus } from '../../../bus/index.js'
import { examineBus } from '../../../operate/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import { writeOne } from '../../terminal/output.js'
import { NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { type BusOutputOptions, withBusOutputOptions } from '../shared/bus-options.js'
import { withBus } from '../shared/open-bus.js'

/** Adds `redrive bus`. */
export function addBus(program: Command, context: CommandContext): void {
  const bus = program.command('bus').helpCommand(false).description('Check the bus that carries events')

  const doctor = bus
    .command('doctor')
    .description('Show the queues, and what could make the broker lose a message')
    .action(async (options: BusOutputOptions) => context.end(await examine(context, options)))
  withBusOutputOptions(doctor).addHelpText(
    'after',
    `
Looks for queues that are missing or of the wrong kind, delivery limits, length
limits, expiry, streams in memory, and late writes to disk. NATS lists its
queues; RabbitMQ needs its management plugin for that, and for its policies.
Changes nothing.

An error means that messages will be lost in normal operation, and the command
exits with 1. A warning means that they may be, or that it could not be checked.

Examples:
  redrive bus doctor --bus nats://localhost --monitor http://localhost:8222
  redrive bus doctor --bus amqp://localhost --monitor http://localhost:15672
  redrive bus doctor --bus amqp://localhost --queue chunking=json.parsed`,
  )
}

function examine({ console, environment }: CommandContext, options: BusOutputOptions): Promise<ExitCode> {
  return withBus(options, environment, async bus => {
    const { queues, findings, isComplete } = await examineBus(bus, options.queue)
    if (!isComplete && options.queue === undefined) {
      throw new UsageError(
        'Which queues? Pass --queue name=type, or --monitor http://localhost:15672: RabbitMQ lists its queues there only.',
      )
    }
    const errors = findings.filter(({ severity }) => severity === 'error').length
    const tables = [
      ...(queues.length === 0 ? [] : [queueTable(queues, console)]),
      ...(findings.length === 0 ? [] : [findingTable(findings, console)]),
    ]
    writeOne(console, options.output, { queues: queues.map(queueJson), findings }, () => tables.join('\n\n'))
    if (queues.length === 0) console.say('No queues.')
    console.say(`${countOf(errors, 'error')}, ${countOf(findings.length - errors, 'warning')}.`)
    return errors === 0 ? ExitCode.done : ExitCode.error
  })
}

function queueJson({ name, type, isFailedQueue, messages }: QueueStatus): object {
  return { name, type, isFailedQueue, messages: messages ?? null }
}

function queueTable(queues: readonly QueueStatus[], { width, paint }: Console): string {
  const columns = [
    { title: 'QUEUE', minWidth: NAME_WIDTH },
    { title: 'TAKES', minWidth: NAME_WIDTH },
    { title: 'MESSAGES' },
  ]
  const rows = queues.map(({ name, type, isFailedQueue, messages }) => ({
    cells: [name, isFailedQueue ? '' : type, messages === undefined ? 'missing' : String(messages)],
    paints: [undefined, undefined, messages === undefined ? paint.red : undefined],
  }))
  return table(columns, rows, { width, paint })
}

function findingTable(findings: readonly Finding[], { width, paint }: Console): string {
  const columns = [{ title: 'SEVERITY' }, { title: 'FINDING' }, { title: 'ABOUT', minWidth: NAME_WIDTH }]
  const rows = findings.map(({ severity, code, subject, message }) => ({
    cells: [severity, code, subject],
    paints: [severity === 'error' ? paint.red : paint.yellow],
    details: paragraph(message, { width, indent: '  ' }),
  }))
  return table(columns, rows, { width, paint })
}

function countOf(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`
}
