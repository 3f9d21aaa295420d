import type { Command } from 'commander'
import { ledgerRowView, taskView } from '../../../operate/index.js'
import { readableRows, readableView } from '../../../operate/internal.js'
import type { TaskRecord } from '../../../store/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import { viewJson } from '../../terminal/output.js'
import { CODEC_ADVICE, ProjectCodecs } from '../shared/codecs.js'
import { noMatch } from '../shared/no-match.js'
import type { StoreOptions } from '../shared/open-store.js'
import { withStore } from '../shared/open-store.js'
import { type FilterOptions, withFilterOptions, withStoreOption } from '../shared/options.js'
import { taskFilter } from '../task/filter.js'
import { withTaskCodecs } from '../worker/load-work.js'

interface ExportCommandOptions extends StoreOptions, FilterOptions {
  readonly tasks?: string
  readonly history?: boolean
}

const PAGE = 500

/** Adds `redrive dlq export`. */
export function addExport(dlq: Command, context: CommandContext): void {
  const command = dlq
    .command('export')
    .description('Write dead letters to stdout, one JSON text per line')
    .option('--history', 'With the whole history of each')
    .action(async (options: ExportCommandOptions) => context.end(await exportLetters(context, options)))
  withTaskCodecs(withStoreOption(withFilterOptions(command))).addHelpText(
    'after',
    `
However many there are, a page at a time is in memory. Nothing is changed.
Payloads are written as they are, with any secrets in them; encoded ones are
decoded if the module of --tasks has their codecs.

Examples:
  redrive dlq export --kind send-email > dead-letters.jsonl
  redrive dlq export --history | jq -c 'select(.history | length > 5)'`,
  )
}

function exportLetters({ console, environment }: CommandContext, options: ExportCommandOptions): Promise<ExitCode> {
  const { history } = options
  return withStore(options, environment, async store => {
    const filter = { ...(await taskFilter(store, options)), status: 'dead' } as const
    const projectCodecs = new ProjectCodecs(options.tasks, environment)
    const viewsOf = async (letters: readonly TaskRecord[]) => {
      const codecs = await projectCodecs.for(letters.map(letter => taskView(letter)))
      const ledgers = history ? await store.ledgers(letters.map(({ id }) => id)) : []
      return letters.map((letter, n) => {
        const rows = history && { history: readableRows(ledgers[n] ?? [], letter, codecs).map(ledgerRowView) }
        return { ...readableView(letter, codecs), ...rows }
      })
    }
    let [count, encoded] = [0, 0]
    let after: string | undefined
    do {
      const { items, next } = await store.list(filter, { limit: PAGE, after })
      const views = await viewsOf(items)
      encoded += views.filter(({ unreadable }) => unreadable !== null).length
      if (views.length > 0) await console.stream(views.map(view => viewJson(view)).join('\n'))
      count += items.length
      after = next
    } while (after !== undefined)
    if (count === 0) console.say(await noMatch(store, 'dead letters', filter))
    if (encoded > 0) console.say(`${encoded} of them are encoded, and were written as they are. ${CODEC_ADVICE}`)
    console.say(`${count} exported.`)
    return ExitCode.done
  })
}
