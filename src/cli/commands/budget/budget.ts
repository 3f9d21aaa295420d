import { type Command, InvalidArgumentError } from 'commander'
import { listBudgets } from '../../../operate/index.js'
import type { BudgetRecord, By } from '../../../store/index.js'
import {
  type Budget,
  type BudgetScope,
  checkedBudget,
  type FailureBudget,
  isRunBy,
  type RetryAllowance,
  type StoreContract,
} from '../../../store/internal.js'

import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import type { Console } from '../../terminal/console.js'
import { writeList, writeResult } from '../../terminal/output.js'
import { quoted } from '../../terminal/visible.js'
import { rateText } from '../lane/text.js'
import { withStore } from '../shared/open-store.js'
import {
  type CommonOptions,
  duration,
  nonEmpty,
  rate,
  share,
  wholeNumber,
  withCommonOptions,
} from '../shared/options.js'
import { budgetTable, failureBudgetText, percent, scopeText } from './text.js'

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
  /** `false`: none. */
  readonly dependency?: string | false
  readonly minAttempts?: number
  readonly window?: number
  readonly hold?: number
}

const HOUR_MS = 3_600_000

/** With all of them allowed to fail, a gate would never open. */
function shareBelowAll(text: string): number {
  const allowed = share(text)
  if (allowed === 1) throw new InvalidArgumentError('It must be below 100%.')
  return allowed
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
    .option('--failures <share>', "Share of attempts that may fail, such as '50%'", shareBelowAll)
    .option('--retries <share>', "Retries per first attempt, such as '20%'", share)
    .option('--floor <rate>', 'Retries that pass whatever the share (default: 1/s)', rate)
    .option('--dependency <name>', 'Share this retry budget with the kinds that name the same service', nonEmpty)
    .option('--no-dependency', 'Give the kind a retry budget of its own again')
    .option(
      '--min-attempts <n>',
      'Minimum number of attempts before the gate may open (default: 20)',
      wholeNumber(1, 1_000_000),
    )
    .option('--window <duration>', 'Time within which attempts count (default: 1m)', duration(10_000, HOUR_MS))
    .option('--hold <duration>', 'First hold; each further one is twice as long (default: 30s)', duration(1, HOUR_MS))
    .action(async (options: SetOptions) => context.end(await setBudget(context, options)))
  withScopeOptions(set).addHelpText(
    'after',
    `
Failures with a retryable verdict count; final ones, rate limits and losses do
not. Retries over their budget are held, not lost. A budget that the kind has
already keeps the settings that you leave out.

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
  const { failures, retries } = changesOf(options)
  if (failures === undefined && retries === undefined)
    throw new UsageError('Nothing to set. Pass --failures or --retries.')
  return withStore(options, environment, async store => {
    const budgets = await store.budgets.list()
    const known = budgets.find(budget => isSameScope(budget, scope))
    const budget: Budget = {
      failures: failures === undefined ? known?.failures : changedFailures(scope, known, failures),
      retries: retries === undefined ? allowanceOf(known) : changedRetries(scope, budgets, known, retries),
    }
    await store.budgets.set(scope, budget, by(environment.user, options))
    writeResult(console, options.output, {
      ...scope,
      failures: budget.failures ?? null,
      retries: budget.retries ?? null,
    })
    const checked = checkedBudget(budget)
    if (failures !== undefined && checked.failures !== undefined)
      console.say(failureBudgetText(scope, checked.failures))
    if (retries !== undefined && budget.retries !== undefined) sayRetries(console, scope, budget.retries, budgets)
    if (!(await isKnown(store, scope)))
      console.say('No task and no live worker has it: check the spelling, or start a worker that runs it.')
    return ExitCode.done
  })
}

/** The settings that the options name, of each budget that they name any of. The window is that of both. */
function changesOf(options: SetOptions): { failures?: Partial<FailureBudget>; retries?: RetryChanges } {
  const { failures, minAttempts, hold: holdMs, retries, floor, dependency, window: windowMs } = options
  const window = windowMs !== undefined && { windowMs }
  const isOfFailures = (failures ?? minAttempts ?? holdMs) !== undefined
  const isOfRetries = (retries ?? floor ?? dependency) !== undefined
  return {
    ...(isOfFailures && {
      failures: {
        ...window,
        ...(failures !== undefined && { share: failures }),
        ...(minAttempts !== undefined && { minAttempts }),
        ...(holdMs !== undefined && { holdMs }),
      },
    }),
    ...(isOfRetries && {
      retries: {
        ...window,
        ...(retries !== undefined && { share: retries }),
        ...(floor !== undefined && { floor }),
        ...(dependency !== undefined && { dependency }),
      },
    }),
  }
}

/** `dependency` is `false` for none. */
type RetryChanges = Partial<Omit<RetryAllowance, 'dependency'>> & { readonly dependency?: string | false }

/** A failure budget with other settings. */
function changedFailures(
  scope: BudgetScope,
  known: BudgetRecord | undefined,
  changes: Partial<FailureBudget>,
): FailureBudget {
  const { share: allowed, ...settings } = { ...known?.failures, ...changes }
  if (allowed === undefined) throw new UsageError(`${scopeText(scope)} has no failure budget yet. Pass --failures.`)
  return { ...settings, share: allowed }
}

/** A retry budget with other settings. One that joins a dependency takes over those that the dependency has. */
function changedRetries(
  scope: BudgetScope,
  budgets: readonly BudgetRecord[],
  known: BudgetRecord | undefined,
  changes: RetryChanges,
): RetryAllowance {
  const { dependency: wanted } = changes
  const joined = budgets.find(({ retries }) => wanted !== undefined && retries?.dependency === wanted)
  const { dependency, share: allowed, ...settings } = { ...allowanceOf(joined ?? known), ...changes }
  if (allowed === undefined) throw new UsageError(`${scopeText(scope)} has no retry budget yet. Pass --retries.`)
  return { ...settings, share: allowed, ...(typeof dependency === 'string' && { dependency }) }
}

function sayRetries(
  console: Console,
  scope: BudgetScope,
  retries: RetryAllowance,
  budgets: readonly BudgetRecord[],
): void {
  const { share: allowed, floor = 1, dependency } = retries
  const whose = dependency === undefined ? 'its first attempts' : `the first attempts that call ${quoted(dependency)}`
  console.say(`${scopeText(scope)} retries at most ${percent(allowed)} of ${whose}, or ${rateText(floor)}.`)
  if (dependency === undefined) return
  const sharing = budgets.filter(budget => budget.retries?.dependency === dependency && !isSameScope(budget, scope))
  if (sharing.length > 0) console.say(`Shared with ${sharing.map(budget => inSentence(scopeText(budget))).join(', ')}.`)
}

/** The settings of a retry budget. */
function allowanceOf({ retries }: Partial<BudgetRecord> = {}): RetryAllowance | undefined {
  if (retries === undefined) return undefined
  const { share, windowMs, floor, dependency } = retries
  return { share, windowMs, floor, ...(dependency !== undefined && { dependency }) }
}

/** Whether there are tasks of a scope, or live workers that report to run it. */
async function isKnown(store: StoreContract, { kind, category }: BudgetScope): Promise<boolean> {
  const lanes = await store.lanes({ kind, ...(category !== undefined && { category }) })
  if (lanes.length > 0) return true
  const workers = await store.workers()
  return workers.some(worker => worker.kinds !== undefined && isRunBy(worker, { kind, category }))
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
async function liftPart(store: StoreContract, scope: BudgetScope, options: LiftOptions, by: By): Promise<boolean> {
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

function scopeOf({ kind, category }: ScopeOptions): BudgetScope {
  return { kind, ...(category !== undefined && { category }) }
}

function by(who: string, { why }: ScopeOptions): By {
  return { who, why }
}

function isSameScope(a: BudgetScope, b: BudgetScope): boolean {
  return a.kind === b.kind && a.category === b.category
}

function noBudget(scope: BudgetScope, part = ''): UsageError {
  return new UsageError(`${scopeText(scope)} has no ${part}budget. See: ${suggest('budget ls')}`)
}

function inSentence(text: string): string {
  return `${text.slice(0, 1).toLowerCase()}${text.slice(1)}`
}
