import type { Command } from 'commander'
import type { LetterSelection, RedrivePlan } from '../../../operate/index.js'
import { deadOfBatch } from '../../../operate/internal.js'
import type { StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import { writeList } from '../../terminal/output.js'
import { type CommonOptions, type FilterOptions, withBatchOption, withFilterOptions } from '../shared/options.js'
import { taskFilter } from '../task/filter.js'
import { letterTable } from '../task/text.js'

/** The rows of a dry run's table. JSON has all of them. */
const SHOWN = 20

/** The flags that select dead letters, besides their ids. */
export interface SelectionOptions extends FilterOptions {
  readonly all?: boolean
  readonly batch?: string
}

/** Adds the ids and the flags that select dead letters. */
export function withSelection(command: Command, verb: string): Command {
  const filtered = withBatchOption(withFilterOptions(command.argument('[ids...]', 'Ids of the dead letters')))
  return filtered.option('--all', `${verb} every dead letter`)
}

/**
 * The dead letters that ids and flags select, once the store is open. Refuses to guess: an empty filter is a mistake, and so
 * are ids together with a filter.
 */
export function selectionOf(
  ids: readonly string[],
  options: SelectionOptions,
  what = 'dead letters',
): (store: StoreContract) => Promise<LetterSelection> {
  const { kind, category, key, code, group, where, batch, all } = options
  const hasFilter = [kind, category, key, code, group, where, batch].some(value => value !== undefined)
  if ([ids.length > 0, hasFilter, all === true].filter(Boolean).length > 1) {
    throw new UsageError('Pass ids, a filter or --all, but only one of them.')
  }
  if (ids.length > 0) return async () => ({ ids })
  if (!hasFilter && !all) {
    throw new UsageError(`Which ${what}? Pass ids, a filter such as --kind or --code, or --all.`)
  }
  if (batch !== undefined) return async store => ({ ids: await deadOfBatch(store, batch) })
  return async store => (all ? { all } : { filter: await taskFilter(store, options) })
}

/** Prints the dead letters that an act would be done to, and those that it would refuse. Returns the plan. */
export async function preview<Plan extends RedrivePlan>(
  { console }: CommandContext,
  store: Pick<StoreContract, 'now'>,
  { output }: Pick<CommonOptions, 'output'>,
  makePlan: (options: { readonly sampleSize: number }) => Promise<Plan>,
): Promise<Plan> {
  const plan = await makePlan({ sampleSize: output === 'table' ? SHOWN : Infinity })
  const { count, sample, refused } = plan
  for (const { text } of refused) console.say(text)
  const now = await store.now()
  writeList(console, output, sample, letters => letterTable(letters, console, now))
  if (count > sample.length) console.say(`… and ${count - sample.length} more.`)
  return plan
}

/** `1 dead letter`, `2 dead letters` */
export function lettersText(count: number): string {
  return `${count} dead ${count === 1 ? 'letter' : 'letters'}`
}

/** The exit code of an act on many, or of its dry run, some of which may be left alone. */
export function endOf(done: number, leftAlone: number): ExitCode {
  if (leftAlone === 0) return ExitCode.done
  return done === 0 ? ExitCode.error : ExitCode.partly
}
