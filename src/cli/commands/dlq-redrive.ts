import type { Command } from 'commander'
import type { Store, TaskFilter, TaskRecord } from '../../store/index.js'
import { type Redriven, type RedriveSelection, redriveDeadLetters } from '../../task/index.js'
import type { CommandContext } from '../command.js'
import type { Environment } from '../environment.js'
import { ExitCode, UsageError } from '../errors.js'
import type { Console } from '../terminal/console.js'
import { writeList, writeOne } from '../terminal/output.js'
import { signalsOf } from '../terminal/signals.js'
import { withStore } from './open-store.js'
import { type CommonOptions, nonEmpty, rate, withCommonOptions, withFilterOptions } from './options.js'
import { letterTable } from './task-text.js'
import { taskJson } from './task-view.js'

interface RedriveCommandOptions extends CommonOptions {
  readonly kind?: string
  readonly category?: string
  readonly key?: string
  readonly code?: string
  readonly all?: boolean
  readonly why?: string
  readonly rate?: number
  readonly dryRun?: boolean
  readonly yes?: boolean
}

/** An id that was named, and why it cannot be redriven. */
interface NotMoved {
  readonly id: string
  readonly why: string
}

/** How many a dry run reads at a time, and how many it lists for people. */
const PAGE = 500
const SHOWN = 20
/** How often a redrive that takes long says how far it is. */
const PROGRESS_EVERY_MS = 1000

/** Adds `redrive dlq redrive`. */
export function addRedrive(dlq: Command, context: CommandContext): void {
  const redrive = dlq
    .command('redrive')
    .description('give dead letters fresh attempts; their history stays')
    .argument('[ids...]', 'the dead letters, by id')
  withFilterOptions(redrive)
    .option('--all', 'every dead letter there is')
    .option('--why <text>', 'why, for the record', nonEmpty)
    .option('--rate <rate>', "so many at most, such as '50/s' or '600/m'", rate)
    .option('--dry-run', 'show which would be moved, and move none')
    .option('-y, --yes', 'do not ask')
    .action(async (ids: string[], options: RedriveCommandOptions) =>
      context.end(await redriveLetters(context, ids, options)),
    )
  withCommonOptions(redrive).addHelpText(
    'after',
    `
Who did it and why goes on record with each of them, and the whole of it in the
audit: who, when, why, which and how many. Ctrl-C stops it after the batch that
is under way; the same command then goes on with the rest.
Ends with 3 if only some of those named were moved, or if it was stopped.

Examples:
  redrive dlq redrive order-42 order-43
  redrive dlq redrive --kind send-email --dry-run
  redrive dlq redrive --code ECONNREFUSED --why 'the mail server is back'
  redrive dlq redrive --all --rate 50/s --yes`,
  )
}

function redriveLetters(
  context: CommandContext,
  ids: readonly string[],
  options: RedriveCommandOptions,
): Promise<ExitCode> {
  const { console, environment } = context
  const selection = selectionOf(ids, options)
  return withStore(options, environment, async store => {
    const { dead, notMoved } = await matching(store, selection)
    for (const { id, why } of notMoved) console.say(`'${id}' ${why}.`)
    if (options.dryRun) return preview(store, console, options, selection, dead, notMoved)
    if (dead > 0) await confirm(environment, dead, options)

    const { ids: moved, isStopped } = await move(store, context, selection, options, dead)
    if (options.output !== 'table') {
      writeOne(console, options.output, { moved: moved.length, ids: moved, notMoved, isStopped }, () => '')
    }
    console.say(`${moved.length} moved.`)
    if (isStopped) {
      console.say('Stopped: the rest is as it was. The same command goes on with it.')
      return ExitCode.partly
    }
    return endOf(moved.length, notMoved.length)
  })
}

/** Moves them, says how far it is, and stops at the first signal. */
async function move(
  store: Store,
  { console, environment }: CommandContext,
  selection: RedriveSelection,
  { why, rate: perSecond }: RedriveCommandOptions,
  dead: number,
): Promise<Redriven> {
  const signals = signalsOf(environment)
  const stop = new AbortController()
  void signals.next().then(name => {
    console.say(`${name}: stopping after this batch.`)
    stop.abort()
  })
  let moved = 0
  let saidAt = performance.now()
  const onProgress = (count: number) => {
    moved = count
    if (moved >= dead || performance.now() - saidAt < PROGRESS_EVERY_MS) return
    saidAt = performance.now()
    console.say(`${moved} of ${dead} moved so far.`)
  }
  try {
    const { signal } = stop
    return await redriveDeadLetters(store, selection, { who: environment.user, why, perSecond, signal, onProgress })
  } catch (error) {
    console.say(`${moved} moved before it failed. The same command goes on with the rest.`)
    throw error
  } finally {
    signals.close()
  }
}

/** Says what a redrive would do. */
async function preview(
  store: Store,
  console: Console,
  { output }: RedriveCommandOptions,
  selection: RedriveSelection,
  dead: number,
  notMoved: readonly NotMoved[],
): Promise<ExitCode> {
  const now = await store.now()
  const shown: TaskRecord[] = []
  for await (const letters of pages(store, selection)) {
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
function selectionOf(
  ids: readonly string[],
  { kind, category, key, code, all }: RedriveCommandOptions,
): RedriveSelection {
  const filter = { kind, category, key, errorCode: code }
  const hasFilter = Object.values(filter).some(value => value !== undefined)
  if ([ids.length > 0, hasFilter, all === true].filter(Boolean).length > 1) {
    throw new UsageError('Give ids, or a filter, or --all: not more than one of them.')
  }
  if (ids.length > 0) return { ids: [...new Set(ids)] }
  if (!hasFilter && !all) {
    throw new UsageError('Which dead letters? Give ids, a filter such as --kind or --code, or --all for every one.')
  }
  return all ? { all } : { filter }
}

/** How many there are to move, and which of those named cannot be. */
async function matching(store: Store, selection: RedriveSelection): Promise<{ dead: number; notMoved: NotMoved[] }> {
  if (!('ids' in selection)) return { dead: (await store.count(filterOf(selection))).dead, notMoved: [] }
  const notMoved: NotMoved[] = []
  for (const id of selection.ids) {
    const task = await store.get(id)
    if (task?.status !== 'dead') {
      notMoved.push({ id, why: task === undefined ? 'is not in the store' : `is not dead: it is ${task.status}` })
    }
  }
  return { dead: selection.ids.length - notMoved.length, notMoved }
}

/** The dead letters that are meant, page by page. */
async function* pages(store: Store, selection: RedriveSelection): AsyncGenerator<readonly TaskRecord[]> {
  if ('ids' in selection) {
    const tasks = await Promise.all(selection.ids.map(id => store.get(id)))
    yield tasks.filter(task => task?.status === 'dead').filter(task => task !== undefined)
    return
  }
  let after: string | undefined
  do {
    const { items, next } = await store.list(filterOf(selection), { limit: PAGE, after })
    yield items
    after = next
  } while (after !== undefined)
}

function filterOf(selection: Exclude<RedriveSelection, { readonly ids: readonly string[] }>): TaskFilter {
  return { ...('filter' in selection ? selection.filter : {}), status: 'dead' }
}

async function confirm({ isTTY, prompt }: Environment, dead: number, { yes }: RedriveCommandOptions): Promise<void> {
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
