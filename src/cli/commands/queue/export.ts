import { open, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { exportFailedQueue, findFailedQueue } from '../../../operate/index.js'
import type { CommandContext } from '../../command.js'
import type { Environment } from '../../environment.js'
import { CommandError, ExitCode } from '../../errors.js'
import { writeSlowly } from '../../terminal/console.js'
import { withCount } from '../../terminal/progress.js'
import { quoted, visibleJson } from '../../terminal/visible.js'
import { type KnownBusOptions, withBusOptions } from '../shared/bus-options.js'
import { withLimitOption } from '../shared/options.js'
import { withQueues } from './known-queues.js'

interface ExportOptions extends KnownBusOptions {
  readonly limit?: number
}

/** Where an export is written to, piece by piece. */
interface Destination {
  write(text: string): Promise<unknown>
  close(): Promise<void>
  /** Removes the file of an export that failed. */
  discard(): Promise<void>
}

const STAY = 'They are still in the queue.'

/** Adds `redrive queue export`. */
export function addExport(queue: Command, context: CommandContext): void {
  const command = queue
    .command('export')
    .description('Write the messages of a failed queue to a file; they stay in the queue')
    .argument('<queue>', 'Name of the failed queue')
    .argument('<file>', "New file, or '-' for stdout")
    .action(async (name: string, file: string, options: ExportOptions) =>
      context.end(await exportQueue(context, name, file, options)),
    )
  withBusOptions(withLimitOption(command)).addHelpText(
    'after',
    `
The file is JSON: queue, export_timestamp (UTC), total_messages_in_queue,
messages, messages_exported. A message has id, type, headers and body. A body
that is not JSON is its raw_body; if it is not text either, in base64.

Examples:
  redrive queue export chunking.failed chunking-failed.json
  redrive queue export chunking.failed - | jq '.messages[].body.last_error'`,
  )
}

function exportQueue(context: CommandContext, name: string, file: string, options: ExportOptions): Promise<ExitCode> {
  const { console, environment } = context
  const { limit } = options
  return withQueues(options, environment, async bus => {
    const { messages: total } = await findFailedQueue(bus, name)
    const destination = await destinationOf(environment, file)
    const counting = { total: Math.min(total, limit ?? total), verb: 'exported', unit: 'message', rest: STAY }
    return withCount(context, counting, async ({ signal, onProgress }) => {
      let exported = 0
      const count = (done: number) => {
        exported = done
        onProgress(done)
      }
      try {
        for await (const text of exportFailedQueue(bus, name, { limit, signal, onProgress: count })) {
          await destination.write(visibleJson(text))
        }
        await destination.close()
      } catch (error) {
        await destination.discard()
        throw error
      }
      console.say(`${exported} of ${total} exported. ${STAY}`)
      return signal.aborted ? ExitCode.partly : ExitCode.done
    })
  })
}

async function destinationOf({ stdout, cwd }: Environment, file: string): Promise<Destination> {
  if (file === '-') {
    return { write: text => writeSlowly(stdout, text), close: async () => {}, discard: async () => {} }
  }
  const path = resolve(cwd, file)
  try {
    // Messages may be private.
    const handle = await open(path, 'wx', 0o600)
    return {
      write: text => handle.appendFile(text),
      close: () => handle.close(),
      discard: async () => {
        await handle.close()
        await rm(path, { force: true })
      },
    }
  } catch (error) {
    const exists = error instanceof Error && 'code' in error && error.code === 'EEXIST'
    const problem = exists ? 'exists already. Name another file.' : 'cannot be created. Does its folder exist?'
    throw new CommandError(`${quoted(file)} ${problem} 0 exported.`, { cause: error })
  }
}
