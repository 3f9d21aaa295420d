import { open, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { CommandContext } from '../command.js'
import { CommandError, ExitCode } from '../errors.js'
import { visibleJson } from '../terminal/visible.js'
import { type KnownBusOptions, withBusOptions } from './bus-options.js'
import { withBus } from './open-bus.js'
import { messageJson } from './queue-message.js'
import { findFailedQueue } from './queue-routes.js'
import { walk, withLimitOption } from './queue-walk.js'

interface ExportOptions extends KnownBusOptions {
  readonly limit?: number
}

/** Where an export is written to, piece by piece: a failed queue may not fit into memory. */
interface Destination {
  write(text: string): Promise<unknown>
  close(): Promise<void>
  /** What failed half-way leaves no file behind. */
  discard(): Promise<void>
}

/** Adds `redrive queue export`. */
export function addExport(queue: Command, context: CommandContext): void {
  const command = queue
    .command('export')
    .description('write the messages of a failed queue to a file; they stay')
    .argument('<queue>', 'the failed queue')
    .argument('<file>', "a new file; '-' is stdout")
    .action(async (name: string, file: string, options: ExportOptions) =>
      context.end(await exportAll(context, name, file, options)),
    )
  withBusOptions(withLimitOption(command)).addHelpText(
    'after',
    `
The file is JSON: queue, export_timestamp (UTC), total_messages_in_queue,
messages, messages_exported. A message has id, type, headers and body; a body
that is no JSON is its raw_body, and one that is no text is base64.

Examples:
  redrive queue export chunking.failed chunking-failed.json
  redrive queue export chunking.failed - | jq '.messages[].body.last_error'`,
  )
}

function exportAll(context: CommandContext, name: string, file: string, options: ExportOptions): Promise<ExitCode> {
  const { console, environment } = context
  const { limit } = options
  return withBus(options, environment, async bus => {
    const queue = await findFailedQueue(bus, name, options.queue)
    const head = {
      queue: name,
      export_timestamp: new Date().toISOString(),
      total_messages_in_queue: queue.messages,
    }
    const destination = await destinationOf(context, file)
    try {
      await destination.write(`${JSON.stringify(head, null, 2).slice(0, -'\n}'.length)},\n  "messages": [`)
      let separator = '\n'
      const { count, isStopped } = await walk(context, bus, queue, { limit, done: 'exported' }, async message => {
        await destination.write(`${separator}    ${visibleJson(JSON.stringify(messageJson(message)))}`)
        separator = ',\n'
        return true
      })
      await destination.write(`\n  ],\n  "messages_exported": ${count}\n}\n`)
      await destination.close()
      console.say(`${count} of ${queue.messages} exported; they are still in '${name}'.`)
      return isStopped ? ExitCode.partly : ExitCode.done
    } catch (error) {
      await destination.discard()
      throw error
    }
  })
}

async function destinationOf({ environment }: CommandContext, file: string): Promise<Destination> {
  const { stdout, cwd } = environment
  if (file === '-') {
    return { write: async text => stdout.write(text), close: async () => {}, discard: async () => {} }
  }
  const path = resolve(cwd, file)
  try {
    const handle = await open(path, 'wx')
    return {
      write: text => handle.appendFile(text),
      close: () => handle.close(),
      discard: async () => {
        await handle.close()
        await rm(path, { force: true })
      },
    }
  } catch (error) {
    const isThere = error instanceof Error && 'code' in error && error.code === 'EEXIST'
    const problem = isThere ? 'is there already: name another file' : 'cannot be written: is its folder there?'
    throw new CommandError(`'${file}' ${problem}. 0 exported.`, { cause: error })
  }
}
