import type { Command } from 'commander'
import { closeBatch, findBatch, listBatches } from '../../../operate/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import { writeOne, writeResult } from '../../terminal/output.js'
import { quoted } from '../../terminal/visible.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions, withPageOptions } from '../shared/options.js'
import { type PageOptions, printList } from '../shared/print-list.js'
import { batchTable, batchText } from './text.js'

interface ListFlags extends CommonOptions, PageOptions {
  readonly open?: boolean
}

/** Adds `redrive batch`. */
export function addBatch(program: Command, context: CommandContext): void {
  const { console, environment } = context
  const batch = program.command('batch').description('List and show batches of tasks')

  const ls = batch
    .command('ls')
    .description('List batches, newest first')
    .option('--open', 'Only batches that have not ended')
    .action(async (options: ListFlags) =>
      context.end(
        await withStore(options, environment, async store => {
          const now = await store.now()
          return printList(console, options, {
            read: page => listBatches(store, page, { isOpen: options.open === true }),
            toJson: view => view,
            toTable: (views, layout) => batchTable(views, console, now, layout),
            none: () =>
              options.open ? 'All batches have ended.' : 'No batches. Code makes them: queue.enqueueBatch(…).',
          })
        }),
      ),
    )
  withCommonOptions(withPageOptions(ls, 'batches')).addHelpText(
    'after',
    `
A batch is filling until its producer has added its last task. It ends as
completed if all of its tasks succeeded or were skipped, as failed if none did,
and otherwise as partial_success.

Example:
  redrive batch ls --open`,
  )

  const show = batch
    .command('show')
    .description('Show a batch, its dead letters by code, and the task that follows its end')
    .argument('<name>', 'Name of the batch')
    .action(async (name: string, options: CommonOptions) =>
      context.end(
        await withStore(options, environment, async store => {
          const found = await findBatch(store, name)
          const now = await store.now()
          writeOne(console, options.output, found, () => batchText(found, console, now))
          return ExitCode.done
        }),
      ),
    )
  withCommonOptions(show).addHelpText(
    'after',
    `
For its tasks, see redrive task ls --batch.

Example:
  redrive batch show newsletter-42`,
  )

  const close = batch
    .command('close')
    .description('Let a batch end whose producer is gone, with the tasks that it has')
    .argument('<name>', 'Name of the batch')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .action(async (name: string, options: CommonOptions & { readonly why?: string }) =>
      context.end(
        await withStore(options, environment, async store => {
          await closeBatch(store, name, { who: environment.user, why: options.why })
          const { status } = await findBatch(store, name)
          writeResult(console, options.output, { name, status })
          console.say(`The batch ${quoted(name)} takes no more tasks: it is ${status}.`)
          return ExitCode.done
        }),
      ),
    )
  withCommonOptions(close).addHelpText(
    'after',
    `
A producer that died halfway goes on where it was when its program runs again
with the same tasks. Close the batch only if that is not possible.

Example:
  redrive batch close newsletter-42 --why 'the import was given up'`,
  )
}
