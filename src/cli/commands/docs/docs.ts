import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Collection, type DocumentSource, NoCollectionError } from '../../../document/index.js'
import { cutOf, findDocument, requeueDocument } from '../../../document/internal.js'
import { groupFailures } from '../../../operate/index.js'
import { parseMoment } from '../../../time/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import {
  OUTPUT_FORMATS,
  type OutputFormat,
  viewJson,
  writeOne,
  writePages,
  writeResult,
} from '../../terminal/output.js'
import { NAME_WIDTH, table } from '../../terminal/table.js'
import { moment, relative } from '../../terminal/times.js'
import { quoted } from '../../terminal/visible.js'
import { storedRules, withRulesOption } from '../groups/stored-rules.js'
import { printSeenGroups } from '../queue/seen-groups-text.js'
import { withBusOptions } from '../shared/bus-options.js'
import { type BusOptions, withBus } from '../shared/open-bus.js'
import type { StoreOptions } from '../shared/open-store.js'
import { nonEmpty, rate, wholeNumber } from '../shared/options.js'
import { type RecordOptions, withRecordOptions } from '../shared/recorded.js'
import { type BulkOptions, exportAll, purgeAll } from './bulk.js'
import { collectionNamed, type DocumentOptions, withDocumentOptions, withSource } from './options.js'
import { resetAll } from './reset.js'
import { attemptsText, documentView, lastAttemptText } from './view.js'
import { printDocumentWhy } from './why.js'

interface OutputOptions extends DocumentOptions {
  readonly output: OutputFormat
}

interface ListOptions extends OutputOptions {
  readonly stuck?: boolean
  readonly failed?: boolean
  readonly limit: number
  readonly all?: boolean
}

interface GroupsOptions extends OutputOptions, StoreOptions {
  readonly limit: number
}

/** Documents are read in pages of this size. */
const PAGE_SIZE = 500

/** Adds `redrive docs`. */
export function addDocs(program: Command, context: CommandContext): void {
  const docs = program
    .command('docs')
    .helpCommand(false)
    .description('List, group, explain, reset, requeue, export and purge documents of your own collections')
  const add = (name: string, description: string) => docs.command(name).description(description)
  const one = (command: Command) =>
    command.argument('<collection>', 'Name of the collection').argument('<id>', 'Id of the document')
  const bulk = (command: Command) =>
    command
      .argument('<collection>', 'Name of the collection')
      .argument('[id]', 'Id of one failed document')
      .option('--all', 'All failed documents of the collection')
      .option('--error <text>', 'Failed documents whose last error contains this text', nonEmpty)
      .option('--limit <n>', 'Maximum number of documents, oldest attempt first', wholeNumber(1, 1_000_000_000))
      .option('--rate <rate>', 'Maximum rate, such as 50/s', rate)
      .option('--dry-run', 'Show how many documents match, and change none')

  const ls = add('ls', 'List stuck or failed documents, oldest attempt first')
    .argument('[collection]', 'Name of the collection (default: all)')
    .option('--stuck', 'Documents that a sweep would look at (default)')
    .option('--failed', 'Documents that are marked as failed')
    .option('--limit <n>', 'Maximum number of documents per collection', wholeNumber(1, 10_000), 50)
    .addOption(new Option('--all', 'All documents, however many').conflicts('limit'))
    .action(async (name: string | undefined, options: ListOptions) => context.end(await list(context, name, options)))
  output(ls).addHelpText(
    'after',
    `
Examples:
  redrive docs ls --failed --source mongodb://localhost/app
  redrive docs ls chunks --stuck --output jsonl | jq -r .id`,
  )

  const show = one(add('show', 'Show a document')).action(async (name: string, id: string, options: OutputOptions) =>
    context.end(await showDocument(context, name, id, options)),
  )
  output(show)

  const why = one(add('why', 'Explain what the next sweep does with a document, and when')).action(
    async (name: string, id: string, options: OutputOptions) => context.end(await showWhy(context, name, id, options)),
  )
  output(why)

  const groups = add('groups', 'Group the failed documents of a collection that failed in the same way')
    .argument('<collection>', 'Name of the collection')
    .option('--limit <n>', 'Maximum number of documents, oldest attempt first', wholeNumber(1, 1_000_000), 10_000)
    .action(async (name: string, options: GroupsOptions) => context.end(await groupDocuments(context, name, options)))
  output(withRulesOption(groups)).addHelpText(
    'after',
    `
Nothing counts the failures of your collections as they happen, so the figures
are as of this look. The rules of the store apply: redrive groups rule ls.

Examples:
  redrive docs groups chunks
  redrive docs groups chunks --output json | jq '.[0].examples'`,
  )

  const reset = bulk(add('reset', 'Give failed documents all their attempts again')).action(
    async (name: string, id: string | undefined, options: BulkOptions & RecordOptions) =>
      context.end(await resetAll(context, name, id, options)),
  )
  output(withRecordOptions(reset)).addHelpText(
    'after',
    `
With a store, --all and --error are an operation on record: 'redrive ops' shows
how far it is, stops it and continues it, after a crash too. It has the
documents that had failed when it was created; one that fails again later stays
failed. Each reset is a conditional update, so nothing is done twice. With
--detach a running sweeper carries it out: redrive sweep --store. Without a
store nothing is recorded: run the same command again to continue.
Ctrl-C stops it after the current batch. Exits with 3 if it was stopped, or if
some documents were left alone.

Examples:
  redrive docs reset archives 42
  redrive docs reset chunks --error 'HTTP 502' --rate 50/s
  redrive docs reset threads --all --dry-run`,
  )

  const requeue = one(add('requeue', 'Requeue one document now, or at a time'))
    .option('--at <time>', 'ISO 8601 time; needs the fields generation and retryAt', time)
    .action(async (name: string, id: string, options: OutputOptions & BusOptions & { readonly at?: number }) =>
      context.end(await requeueOne(context, name, id, options)),
    )
  withBusOptions(output(requeue))

  const exports = add('export', 'Write the failed documents of a collection to a file, one JSON text per line')
    .argument('<collection>', 'Name of the collection')
    .argument('<file>', "New file, or '-' for stdout")
    .option('--error <text>', 'Only documents whose last error contains this text', nonEmpty)
    .action(async (name: string, file: string, options: BulkOptions) =>
      context.end(await exportAll(context, name, file, options)),
    )
  withDocumentOptions(exports)

  const purge = bulk(add('purge', 'Delete failed documents for good'))
    .option('--archive <collection>', 'Copy them into this collection first', nonEmpty)
    .option('-y, --yes', 'Skip the confirmation prompt')
    .action(async (name: string, id: string | undefined, options: BulkOptions) =>
      context.end(await purgeAll(context, name, id, options)),
    )
  output(purge).addHelpText(
    'after',
    `
Asks for confirmation; without a terminal to ask on, pass --yes.

Examples:
  redrive docs export archives archives-failed.jsonl
  redrive docs purge archives --error 'corrupt' --archive archives_dead --yes`,
  )

  const indexes = add('indexes', 'Print the indexes that sweeps need, and create them on request')
    .option('--create', 'Create them')
    .action(async (options: OutputOptions & { readonly create?: boolean }) =>
      context.end(await showIndexes(context, options)),
    )
  withDocumentOptions(indexes)
}

function output(command: Command): Command {
  return withDocumentOptions(command).addOption(
    new Option('--output <format>', 'Output format').choices(OUTPUT_FORMATS).default('table'),
  )
}

function time(text: string): number {
  const at = parseMoment(text)
  if (at === undefined)
    throw new InvalidArgumentError("It must be a time with its zone, such as '2026-08-01T06:00:00Z'.")
  return at
}

function list({ console, environment }: CommandContext, name: string | undefined, options: ListOptions) {
  if (options.stuck && options.failed) throw new UsageError('Pass --stuck or --failed, not both.')
  return withSource(options, environment, async (source, collections) => {
    const chosen = name === undefined ? collections : [collectionNamed(collections, name)]
    const now = await source.now()
    let code: ExitCode = ExitCode.done
    async function* pages() {
      for (const collection of chosen) {
        try {
          yield* listed(source, collection, options, console)
        } catch (error) {
          // Of all collections, those that are there are listed.
          if (name !== undefined || !(error instanceof NoCollectionError)) throw error
          console.say(error.message)
          code = ExitCode.partly
        }
      }
    }
    const titles = ['COLLECTION', 'ID', 'STATUS', 'ATTEMPTS', 'LAST ATTEMPT', 'LAST ERROR']
    const columns = titles.map(title => ({ title, minWidth: NAME_WIDTH }))
    const row = (view: ReturnType<typeof documentView>) => [
      view.collection,
      view.id,
      view.status,
      attemptsText(view),
      lastAttemptText(view, at => relative(at, now)),
      view.lastError ?? view.problem ?? '',
    ]
    await writePages(console, options.all ? pages() : onePage(pages()), {
      format: options.output,
      toJson: view => view,
      toTable: (views, layout) =>
        table(
          columns,
          views.map(view => ({ cells: row(view) })),
          { width: console.width, paint: console.paint, layout },
        ),
    })
    return code
  })
}

function groupDocuments(
  { console, environment }: CommandContext,
  name: string,
  options: GroupsOptions,
): Promise<ExitCode> {
  return withSource(options, environment, async (source, collections) => {
    const collection = collectionNamed(collections, name)
    const { failed } = await source.survey(collection.shape, await cutOf(source, collection))
    const rules = await storedRules(options, environment)
    const seen = await groupFailures(failuresIn(source, collection, options.limit), { rules })
    printSeenGroups(console, options.output, seen, Math.max(failed, seen.looked))
    return ExitCode.done
  })
}

async function* failuresIn(source: DocumentSource, { name, shape }: Collection, limit: number) {
  let left = limit
  for await (const page of source.walk(shape, { type: 'failed' }, { pageSize: Math.min(left, PAGE_SIZE) })) {
    for (const { id, lastError } of page.slice(0, left)) yield { id, kind: name, code: '', error: lastError }
    left -= page.length
    if (left <= 0) return
  }
}

/** The documents of a collection, in pages: up to the limit, or all of them. */
async function* listed(source: DocumentSource, collection: Collection, options: ListOptions, console: Console) {
  const cut = await cutOf(source, collection)
  const { stuck, failed } = await source.survey(collection.shape, cut)
  console.say(`${stuck} stuck and ${failed} failed in ${quoted(collection.name)}.`)
  const selection = options.failed ? ({ type: 'failed' } as const) : ({ type: 'stuck', cut } as const)
  let left = options.all ? Infinity : options.limit
  for await (const page of source.walk(collection.shape, selection, { pageSize: Math.min(left, PAGE_SIZE) })) {
    yield page.slice(0, left).map(document => documentView(collection, document))
    left -= page.length
    if (left <= 0) break
  }
}

/** Makes one page of several, so that the columns of a table fit all rows. */
async function* onePage<T>(pages: AsyncIterable<readonly T[]>): AsyncIterable<readonly T[]> {
  const all: T[] = []
  for await (const page of pages) all.push(...page)
  yield all
}

function showDocument({ console, environment }: CommandContext, name: string, id: string, options: OutputOptions) {
  return withSource(options, environment, async (source, collections) => {
    const collection = collectionNamed(collections, name)
    const document = await findDocument(source, collection, id)
    const view = { ...documentView(collection, document), data: document.data }
    writeOne(console, options.output, view, () => viewJson(view, true))
    return ExitCode.done
  })
}

function showWhy({ console, environment }: CommandContext, name: string, id: string, options: OutputOptions) {
  return withSource(options, environment, async (source, collections) => {
    const collection = collectionNamed(collections, name)
    const document = await findDocument(source, collection, id)
    await printDocumentWhy(console, source, collection, document, options)
    return ExitCode.done
  })
}

function requeueOne(
  { console, environment }: CommandContext,
  name: string,
  id: string,
  options: OutputOptions & BusOptions & { readonly at?: number },
) {
  const { at } = options
  return withSource(options, environment, (source, collections) =>
    withBus(options, environment, async bus => {
      const collection = collectionNamed(collections, name)
      const document = await requeueDocument(source, bus, collection, id, at === undefined ? {} : { at })
      writeResult(console, options.output, documentView(collection, document))
      console.say(
        at === undefined
          ? `${quoted(id)} was requeued.`
          : `The first sweep after ${moment(at, Date.now())} requeues ${quoted(id)}.`,
      )
      return ExitCode.done
    }),
  )
}

function showIndexes({ console, environment }: CommandContext, options: OutputOptions & { readonly create?: boolean }) {
  return withSource(options, environment, async (source, collections) => {
    for (const { shape } of collections) {
      for (const statement of await source.indexes(shape)) console.data(`${statement};`)
      if (options.create) await source.createIndexes(shape)
    }
    console.say(options.create ? 'They exist now.' : 'To create them, pass --create.')
    return ExitCode.done
  })
}
