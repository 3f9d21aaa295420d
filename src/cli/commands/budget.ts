import type { Command } from 'commander'
import { type BudgetView, listBudgets } from '../../operate/index.js'
import { formatDuration } from '../../policy/index.js'
import type {
  Budget,
  BudgetRecord,
  BudgetScope,
  By,
  FailureBudget,
  RetryAllowance,
  Store,
  WorkerRecord,
} from '../../store/index.js'
import type { CommandContext } from '../command.js'
import { ExitCode, UsageError } from '../errors.js'
import { grouped } from '../terminal/chart.js'
import type { Console, Paint } from '../terminal/console.js'
import { writeList, writeResult } from '../terminal/output.js'
import { NAME_WIDTH, table } from '../terminal/table.js'
import { relative } from '../terminal/times.js'
import { quoted } from '../terminal/visible.js'
import { withStore } from './open-store.js'
import { type CommonOptions, duration, nonEmpty, rate, share, wholeNumber, withCommonOptions } from './options.js'

interface ScopeOptions extends CommonOptions {
  readonly kind: string
  readonly category?: string
  readonly why?: string
}

interface LiftOptions extends ScopeOptions {
  readonly failures?: boolean
  readonly retries?: boolean
}

interface SetOptions extends ScopeOptions {
  readonly failures?: number
  readonly retries?: number
  readonly floor?: number
  readonly dependency?: string
  readonly minAttempts?: number
  readonly window?: number
  readonly hold?: number
}

/** Adds `redrive budget`. */
export function addBudget(program: Command, context: CommandContext): void {
  const budget = program
    .command('budget')
    .description('List, set and lift the failure and retry budgets of kinds, and close their gates')
  const ls = budget
    .command('ls')
    .description('List budgets, with their gates and held retries')
    .action(async (options: CommonOptions) => context.end(await printBudgets(context, options)))
  withCommonOptions(ls).addHelpText(
    'after',
    `
While the gate of a kind is open, none of its tasks starts, on any machine. Half
open, a growing number starts, beginning with one. Held retries are due, and wait
until their budget lets them through.

Example:
  redrive budget ls`,
  )

  const set = budget
    .command('set')
    .description('Stop a kind while too many of its attempts fail, or limit its retries')
    .option('--failures <share>', "Share of attempts that may fail, such as '50%'", share)
    .option('--retries <share>', "Retries per first attempt, such as '20%'", share)
    .option('--floor <rate>', 'Retries that pass whatever the share (default: 1/s)', rate)
    .option('--dependency <name>', 'Share this retry budget with the kinds that name the same service', nonEmpty)
    .option('--min-attempts <n>', 'Judge nothing with fewer attempts (default: 20)', wholeNumber(1, 1_000_000))
    .option('--window <duration>', 'Time within which attempts count (default: 1m)', duration(10_000))
    .option('--hold <duration>', 'First hold; each further one is twice as long (default: 30s)', duration(1))
    .action(async (options: SetOptions) => context.end(await setBudget(context, options)))
  withScopeOptions(set).addHelpText(
    'after',
    `
Failures with a retryable verdict count; final ones, rate limits and losses do
not. Retries over their budget are held, not lost. Without --failures or
--retries that budget of the kind stays as it is.

Examples:
  redrive budget set --kind charge --failures 50%
  redrive budget set --kind charge --retries 20% --floor 5/s
  redrive budget set --kind refund --retries 20% --dependency payments-api
  redrive budget set --kind pipeline:docs --category llm --failures 30%`,
  )

  const close = budget
    .command('close')
    .description('Close an open gate now: its tasks start again, and the budget stays')
    .action(async (options: ScopeOptions) => context.end(await closeGate(context, options)))
  withScopeOptions(close).addHelpText(
    'after',
    `
The budget counts afresh: if too many attempts fail again, the gate opens again.

Example:
  redrive budget close --kind charge --why 'the provider is back'`,
  )

  const lift = budget
    .command('lift')
    .description('Remove a budget, and its gate with it')
    .option('--failures', 'Remove only the failure budget')
    .option('--retries', 'Remove only the retry budget')
    .action(async (options: LiftOptions) => context.end(await liftBudget(context, options)))
  withScopeOptions(lift).addHelpText(
    'after',
    `
Its tasks start again at once. To let them start and keep the budget, run redrive
budget close. A budget that code declares stays lifted until the code declares
another one. A kind without a budget in this category is under that of the kind.

Examples:
  redrive budget lift --kind charge --why 'replaced by a limit'
  redrive budget lift --kind charge --retries`,
  )
}

function withScopeOptions(command: Command): Command {
  return withCommonOptions(
    command
      .requiredOption('--kind <kind>', 'Tasks of this kind', nonEmpty)
      .option('--category <category>', 'Only those in this category', nonEmpty)
      .option('--why <text>', 'Reason, for the record', nonEmpty),
  )
}

function printBudgets({ console, environment }: CommandContext, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const budgets = await listBudgets(store)
    const now = await store.now()
    writeList(console, options.output, budgets, rows => budgetTable(rows, console, now))
    if (budgets.length === 0) console.say('No budgets.')
    return ExitCode.done
  })
}

function setBudget({ console, environment }: CommandContext, options: SetOptions): Promise<ExitCode> {
  const scope = scopeOf(options)
  const [failures, retries] = [failuresOf(options), retriesOf(options)]
  if (failures === undefined && retries === undefined)
    throw new UsageError('Nothing to set. Pass --failures or --retries.')
  return withStore(options, environment, async store => {
    const known = (await store.budgets.list()).find(budget => isSameScope(budget, scope))
    const budget: Budget = { failures: failures ?? known?.failures, retries: retries ?? allowanceOf(known) }
    await store.budgets.set(scope, budget, by(environment.user, options))
    writeResult(console, options.output, {
      ...scope,
      failures: budget.failures ?? null,
      retries: budget.retries ?? null,
    })
    if (failures !== undefined)
      console.say(`${scopeText(scope)} stops while more than ${percent(failures.share)} of its attempts fail.`)
    if (retries !== undefined) {
      const { dependency, floor = 1 } = retries
      const whose =
        dependency === undefined ? 'its first attempts' : `the first attempts that call ${quoted(dependency)}`
      const most = `${percent(retries.share)} of ${whose}, or ${floor} per second`
      console.say(`${scopeText(scope)} retries at most ${most}.`)
    }
    if (!(await isKnown(store, scope)))
      console.say('No task and no live worker has it: check the spelling, or start a worker that runs it.')
    return ExitCode.done
  })
}

function failuresOf({ failures, minAttempts, window: windowMs, hold: holdMs }: SetOptions): FailureBudget | undefined {
  if (failures === undefined) {
    if (minAttempts !== undefined) throw new UsageError('--min-attempts needs --failures.')
    if (holdMs !== undefined) throw new UsageError('--hold needs --failures.')
    return undefined
  }
  return {
    share: failures,
    ...(minAttempts !== undefined && { minAttempts }),
    ...(windowMs !== undefined && { windowMs }),
    ...(holdMs !== undefined && { holdMs }),
  }
}

function retriesOf({ retries, floor, dependency, window: windowMs }: SetOptions): RetryAllowance | undefined {
  if (retries === undefined) {
    if (floor !== undefined) throw new UsageError('--floor needs --retries.')
    if (dependency !== undefined) throw new UsageError('--dependency needs --retries.')
    return undefined
  }
  return {
    share: retries,
    ...(windowMs !== undefined && { windowMs }),
    ...(floor !== undefined && { floor }),
    ...(dependency !== undefined && { dependency }),
  }
}

/** The settings of a retry budget that stays as it is. */
function allowanceOf({ retries }: Partial<BudgetRecord> = {}): RetryAllowance | undefined {
  if (retries === undefined) return undefined
  const { share, windowMs, floor, dependency } = retries
  return { share, windowMs, floor, ...(dependency !== undefined && { dependency }) }
}

/** Whether there are tasks of a scope, or live workers that report to run it. */
async function isKnown(store: Store, { kind, category }: BudgetScope): Promise<boolean> {
  const lanes = await store.lanes({ kind, ...(category !== undefined && { category }) })
  if (lanes.length > 0) return true
  const isRunBy = ({ kinds, categories }: WorkerRecord) =>
    kinds?.includes(kind) === true && (category === undefined || categories?.includes(category) !== false)
  return (await store.workers()).some(isRunBy)
}

function closeGate({ console, environment }: CommandContext, options: ScopeOptions): Promise<ExitCode> {
  const scope = scopeOf(options)
  return withStore(options, environment, async store => {
    const isClosed = await store.budgets.close(scope, by(environment.user, options))
    const budgets = isClosed ? [] : await store.budgets.list()
    if (!isClosed && !budgets.some(budget => isSameScope(budget, scope))) throw noBudget(scope)
    writeResult(console, options.output, { ...scope, isClosed })
    console.say(`The gate of ${inSentence(scopeText(scope))} ${isClosed ? 'is closed now' : 'was closed already'}.`)
    return ExitCode.done
  })
}

function liftBudget({ console, environment }: CommandContext, options: LiftOptions): Promise<ExitCode> {
  const scope = scopeOf(options)
  return withStore(options, environment, async store => {
    const isLifted = await liftPart(store, scope, options, by(environment.user, options))
    if (!isLifted) throw noBudget(scope, partOf(options))
    writeResult(console, options.output, { ...scope, isLifted })
    console.say(`${scopeText(scope)} has no ${partOf(options)}budget now.`)
    return ExitCode.done
  })
}

/** Removes a budget, or one part of it. Returns whether there was one. */
async function liftPart(store: Store, scope: BudgetScope, options: LiftOptions, by: By): Promise<boolean> {
  const part = partOf(options)
  if (part === '') return store.budgets.lift(scope, by)
  const known = (await store.budgets.list()).find(budget => isSameScope(budget, scope))
  const { failures } = known ?? {}
  const retries = allowanceOf(known)
  const [gone, left] = part === 'failure ' ? [failures, retries] : [retries, failures]
  if (gone === undefined) return false
  if (left === undefined) return store.budgets.lift(scope, by)
  await store.budgets.set(scope, part === 'failure ' ? { retries } : { failures }, by)
  return true
}

/** The part of a budget that the options name, as a word before it; empty: all of it. */
function partOf({ failures, retries }: LiftOptions): '' | 'failure ' | 'retry ' {
  if (failures === retries) return ''
  return failures ? 'failure ' : 'retry '
}

function budgetTable(budgets: readonly BudgetView[], { width, paint }: Console, now: number): string {
  const hasRetries = budgets.some(({ retries }) => retries !== null)
  const columns = [
    { title: 'KIND', minWidth: NAME_WIDTH },
    { title: 'CATEGORY', minWidth: NAME_WIDTH },
    { title: 'FAILURES', minWidth: NAME_WIDTH },
    { title: 'RECENT' },
    { title: 'GATE' },
    ...(hasRetries ? [{ title: 'RETRIES', minWidth: NAME_WIDTH }, { title: 'HELD' }] : []),
    { title: 'CAUSE', minWidth: NAME_WIDTH },
  ]
  const rows = budgets.map(budget => ({
    cells: [
      budget.kind,
      budget.category ?? 'all',
      settingsText(budget),
      budget.failures === null ? '' : `${budget.recent.failed} of ${budget.recent.attempts} failed`,
      budget.failures === null ? '' : gateText(budget, now),
      ...(hasRetries ? [retriesText(budget), heldText(budget, now)] : []),
      causeText(budget),
    ],
    paints: [undefined, undefined, undefined, undefined, gatePaint(budget, paint)],
  }))
  return table(columns, rows, { width, paint })
}

function settingsText({ failures }: BudgetView): string {
  if (failures === null) return 'none'
  const { share: allowed, minAttempts, windowMs } = failures
  return `${percent(allowed)} of ${minAttempts} or more in ${formatDuration(windowMs)}`
}

function retriesText({ retries }: BudgetView): string {
  if (retries === null) return 'any'
  const { share: allowed, floor, windowMs, dependency, first, retried } = retries
  const whose = dependency === null ? '' : `${dependency}: `
  return `${whose}${retried} for ${first} in ${formatDuration(windowMs)} (${percent(allowed)}, or ${floor}/s)`
}

function heldText({ retries }: BudgetView, now: number): string {
  if (retries === null || retries.held === 0) return retries === null ? '' : '0'
  return `${grouped(retries.held)}, next ${retries.nextAt === null ? 'now' : relative(retries.nextAt, now)}`
}

function gateText({ gate: { state, until } }: BudgetView, now: number): string {
  if (state === 'half_open') return 'half open'
  return state === 'open' && until !== null ? `open, probes ${relative(until, now)}` : state
}

function gatePaint({ gate: { state } }: BudgetView, paint: Paint): ((text: string) => string) | undefined {
  switch (state) {
    case 'open':
      return paint.red
    case 'half_open':
      return paint.yellow
    case 'closed':
      return undefined
  }
}

function causeText({ gate: { cause, since } }: BudgetView): string {
  if (cause === null || since === null) return ''
  const group = cause.group === undefined ? '' : ` (group ${cause.group})`
  return `${cause.failed} of ${cause.attempts} failed, mostly ${cause.code || 'without a code'}${group}, since ${since}`
}

function percent(part: number): string {
  return `${Number((part * 100).toFixed(2))}%`
}

function scopeOf({ kind, category }: ScopeOptions): BudgetScope {
  return { kind, ...(category !== undefined && { category }) }
}

function by(who: string, { why }: ScopeOptions): By {
  return { who, ...(why !== undefined && { why }) }
}

function isSameScope(a: BudgetScope, b: BudgetScope): boolean {
  return a.kind === b.kind && a.category === b.category
}

function noBudget(scope: BudgetScope, part = ''): UsageError {
  return new UsageError(`${scopeText(scope)} has no ${part}budget. See: redrive budget ls`)
}

function inSentence(text: string): string {
  return `${text.slice(0, 1).toLowerCase()}${text.slice(1)}`
}

function scopeText({ kind, category }: BudgetScope): string {
  return `Kind ${quoted(kind)}${category === undefined ? '' : ` in category ${quoted(category)}`}`
}
