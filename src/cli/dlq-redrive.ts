import type { Command } from 'commander'
import type { Store, TaskFilter, TaskRecord } from '../store/index.js'
import type { CommandContext } from './command.js'
import type { Console } from './console.js'
import type { Environment } from './environment.js'
import { ExitCode, UsageError } from './errors.js'
import { withStore } from './open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions, withFilterOptions } from './options.js'
import { writeList, writeOne } from './output.js'
import { letterTable } from './task-text.js'
import { taskJson } from './task-view.js'

interface RedriveOptions extends CommonOptions {
  readonly kind?: string
  readonly category?: string
  readonly key?: string
  readonly code?: string
  readonly all?: boolean
  readonly why?: string
  readonly dryRun?: boolean
  readonly yes?: boolean
}

/** Which dead letters: those named, or those that match. */
type Selection = { readonly ids: readonly string[] } | { readonly filter: TaskFilter }

/** An id that was named, and why it cannot be redriven. */
interface NotMoved {
  readonly id: string
  readonly why: string
}

/** How many are moved in one transaction. */
const BATCH = 500
/** How many a dry run lists for people. */
const SHOWN = 20

/** Adds `redrive dlq redrive`. */
export function addRedrive(dlq: Command, context: CommandContext): void {
  const redrive = dlq
    .command('redrive')
    .description('give dead letters fresh attempts; their history stays')
    .argument('[ids...]', 'the dead letters, by id')
  withFilterOptions(redrive)
    .option('--all', 'every dead letter there is')
    .option('--why <text>', 'why, for the record', nonEmpty)
    .option('--dry-run', 'show which would be moved, and move none')
    .option('-y, --yes', 'do not ask')
    .action(async (ids: string[], options: RedriveOptions) => context.end(await redriveLetters(context, ids, options)))
  withCommonOptions(redrive).addHelpText(
    'after',
    `
Who did it and why goes on record with each of them.
Ends with 3 if only some of those named were moved.

Examples:
  redrive dlq redrive order-42 order-43
  redrive dlq redrive --kind send-email --dry-run
  redrive dlq redrive --code ECONNREFUSED --why 'the mail server is back'
  redrive dlq redrive --all --yes`,
  )
}

function redriveLetters(
  { console, environment }: CommandContext,
  ids: readonly string[],
  options: RedriveOptions,
): Promise<ExitCode> {
  const selection = selectionOf(ids, options)
  return withStore(options, environment, async store => {
    const { dead, notMoved } = await matching(store, selection)
    for (const { id, why } of notMoved) console.say(`'${id}' ${why}.`)
    if (options.dryRun) return preview(store, console, options, selection, dead, notMoved)
    if (dead > 0) await confirm(environment, dead, options)

    const moved: string[] = []
    const by = { who: environment.user, why: options.why }
    for await (const letters of batches(store, selection)) {
      moved.push(
        ...(await store.redrive(
          letters.map(({ id }) => id),
          by,
        )),
      )
    }
    if (options.output !== 'table') {
      writeOne(console, options.output, { moved: moved.length, ids: moved, notMoved }, () => '')
    }
    console.say(`${moved.length} moved.`)
    return endOf(moved.length, notMoved.length)
  })
}

/** Says what a redrive would do. */
async function preview(
  store: Store,
  console: Console,
  { output }: RedriveOptions,
  selection: Selection,
  dead: number,
  notMoved: readonly NotMoved[],
): Promise<ExitCode> {
  const now = await store.now()
  const shown: TaskRecord[] = []
  for await (const letters of batches(store, selection)) {
    shown.push(...letters)
    if (output === 'table' && shown.length >= SHOWN) break
  }
  const items = output === 'table' ? shown.slice(0, SHOWN) : shown
  writeList(console, output, items, { toJson: taskJson, toTable: letters => letterTable(letters, console, now) })
  if (dead > items.length) console.say(`… and ${dead - items.length} more.`)
  console.say(`${dead} would be moved. This was a dry run: 0 moved.`)
  return endOf(dead, notMoved.length)
}

/** Refuses to guess: an empty filter is no filter, and a name and a filter together are a mistake. */
function selectionOf(ids: readonly string[], { kind, category, key, code, all }: RedriveOptions): Selection {
  const filter = { kind, category, key, errorCode: code }
  const hasFilter = Object.values(filter).some(value => value !== undefined)
  if ([ids.length > 0, hasFilter, all === true].filter(Boolean).length > 1) {
    throw new UsageError('Give ids, or a filter, or --all: not more than one of them.')
  }
  if (ids.length > 0) return { ids: [...new Set(ids)] }
  if (!hasFilter && !all) {
    throw new UsageError('Which dead letters? Give ids, a filter such as --kind or --code, or --all for every one.')
  }
  return { filter: { ...filter, status: 'dead' } }
}

/** How many there are to move, and which of those named cannot be. */
async function matching(store: Store, selection: Selection): Promise<{ dead: number; notMoved: NotMoved[] }> {
  if ('filter' in selection) return { dead: (await store.count(selection.filter)).dead, notMoved: [] }
  const notMoved: NotMoved[] = []
  for (const id of selection.ids) {
    const task = await store.get(id)
    if (task?.status !== 'dead') {
      notMoved.push({ id, why: task === undefined ? 'is not in the store' : `is not dead: it is ${task.status}` })
    }
  }
  return { dead: selection.ids.length - notMoved.length, notMoved }
}

/**
 * The dead letters, a transaction's worth at a time. Pages go from the newest to the oldest, so that one that is redriven
 * and dies again meanwhile does not come by a second time.
 */
async function* batches(store: Store, selection: Selection): AsyncGenerator<readonly TaskRecord[]> {
  if ('ids' in selection) {
    for (let start = 0; start < selection.ids.length; start += BATCH) {
      const tasks = await Promise.all(selection.ids.slice(start, start + BATCH).map(id => store.get(id)))
      yield tasks.filter(task => task !== undefined).filter(task => task.status === 'dead')
    }
    return
  }
  let after: string | undefined
  do {
    const { items, next } = await store.list(selection.filter, { limit: BATCH, after })
    yield items
    after = next
  } while (after !== undefined)
}

async function confirm({ isTTY, prompt }: Environment, dead: number, { yes }: RedriveOptions): Promise<void> {
  if (yes) return
  const letters = `${dead} dead ${dead === 1 ? 'letter' : 'letters'}`
  if (!(isTTY.stdin && isTTY.stderr)) {
    throw new UsageError(`This would move ${letters}, and there is no terminal to ask on: give --yes. 0 moved.`)
  }
  const answer = await prompt(`Give ${letters} fresh attempts? [y/N] `)
  if (!/^y(es)?$/i.test(answer.trim())) throw new UsageError('Not confirmed: 0 moved.')
}

function endOf(moved: number, notMoved: number): ExitCode {
  if (notMoved === 0) return ExitCode.done
  return moved === 0 ? ExitCode.error : ExitCode.partly
}
