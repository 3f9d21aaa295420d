import { type Command, InvalidArgumentError } from 'commander'
import { listBudgets } from '../../../operate/index.js'
import type { BudgetRecord, By } from '../../../store/index.js'
import {
  type Budget,
  type BudgetScope,
  type Cost,
  type CostBudget,
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
import { budgetTable, costBudgetText, failureBudgetText, percent, scopeText } from './text.js'

interface ScopeOptions extends CommonOptions {
  readonly kind: string
  readonly category?: string
  readonly why?: string
}

interface LiftOptions extends ScopeOptions {
  readonly failures?: boolean
  readonly retries?: boolean
  readonly cost?: boolean
}

interface SetOptions extends ScopeOptions {
  readonly failures?: number
  readonly retries?: number
  readonly floor?: number
  /** `false`: none. */
  readonly dependency?: string | false
  readonly cost?: Cost
  readonly costWindow?: number
  readonly minAttempts?: number
  readonly window?: number
  readonly hold?: number
}

const HOUR_MS = 3_600_000

/** Adds an amount, such as `tokens=2e6`, to those that were given before. */
function amounts(text: string, before: Cost = {}): Cost {
  const [, bucket = '', amount = ''] = /^(.+)=(.+)$/.exec(text) ?? []
  if (!(Number(amount) > 0)) throw new InvalidArgumentError("It must be a bucket and its amount, such as 'tokens=2e6'.")
  return { ...before, [bucket]: Number(amount) }
}

/** With all of them allowed to fail, a gate would never open. */
function shareBelowAll(text: string): number {
  const allowed = share(text)
  if (allowed === 1) throw new InvalidArgumentError('It must be below 100%.')
  return allowed
}

/** Adds `redrive budget`. */
export function addBudget(program: Command, context: CommandContext): void {
  const budget = program.command('budget').description('List, set and lift the budgets of kinds, and close their gates')
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
    .description('Stop a kind while too many attempts fail, or limit its retries or cost')
    .option('--failures <share>', "Share of attempts that may fail, such as '50%'", shareBelowAll)
    .option('--retries <share>', "Retries per first attempt, such as '20%'", share)
    .option('--floor <rate>', 'Retries that pass whatever the share (default: 1/s)', rate)
    .option('--dependency <name>', 'Share this retry budget with the kinds that name the same service', nonEmpty)
    .option('--no-dependency', 'Give the kind a retry budget of its own again')
    .option('--cost <bucket=amount>', "Amount to spend, such as 'tokens=2e6'; may be repeated", amounts)
    .option(
      '--cost-window <duration>',
      'Time for that amount, in UTC (default: 1d)',
      duration(60_000, 31 * 24 * HOUR_MS),
    )
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
not. Retries over their budget are held, not lost. A kind that has spent its
cost, as used() says, is held until the next window. A budget that the kind has
already keeps the settings that you leave out.

Examples:
  redrive budget set --kind charge --failures 50%
  redrive budget set --kind charge --retries 20% --floor 5/s
  redrive budget set --kind refund --retries 20% --dependency payments-api
  redrive budget set --kind summarize --cost tokens=2e6 --cost dollars=50
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
    .option('--cost', 'Remove only the cost budget')
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
  const changes = changesOf(options)
  const { failures, retries, cost } = changes
  if (failures === undefined && retries === undefined && cost === undefined)
    throw new UsageError('Nothing to set. Pass --failures, --retries or --cost.')
  return withStore(options, environment, async store => {
    const budgets = await store.budgets.list()
    const known = budgets.find(budget => isSameScope(budget, scope))
    const budget: Budget = {
      failures: failures === undefined ? known?.failures : changedFailures(scope, known, failures),
      retries: retries === undefined ? allowanceOf(known) : changedRetries(scope, budgets, known, retries),
      cost: cost === undefined ? costOf(known) : changedCost(scope, known, cost),
    }
    await store.budgets.set(scope, budget, by(environment.user, options))
    writeResult(console, options.output, {
      ...scope,
      failures: budget.failures ?? null,
      retries: budget.retries ?? null,
      cost: budget.cost ?? null,
    })
    sayBudget(console, scope, { budget, changes, budgets })
    if (!(await isKnown(store, scope)))
      console.say('No task and no live worker has it: check the spelling, or start a worker that runs it.')
    return ExitCode.done
  })
}

/** Says what holds now, of the parts that were changed. */
function sayBudget(
  console: Console,
  scope: BudgetScope,
  { budget, changes, budgets }: { budget: Budget; changes: Changes; budgets: readonly BudgetRecord[] },
): void {
  const { failures, cost } = checkedBudget(budget)
  if (changes.failures !== undefined && failures !== undefined) console.say(failureBudgetText(scope, failures))
  if (changes.retries !== undefined && budget.retries !== undefined) sayRetries(console, scope, budget.retries, budgets)
  if (changes.cost !== undefined && cost !== undefined) console.say(costBudgetText(scope, cost))
}

/** The settings that the options name, of each budget that they name any of. The window is that of both. */
function changesOf(options: SetOptions): Changes {
  const { failures, minAttempts, hold: holdMs, retries, floor, dependency, window: windowMs } = options
  const { cost: amounts, costWindow } = options
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
    ...((amounts ?? costWindow) !== undefined && {
      cost: { ...(amounts && { amounts }), ...(costWindow !== undefined && { windowMs: costWindow }) },
    }),
  }
}

interface Changes {
  readonly failures?: Partial<FailureBudget>
  readonly retries?: RetryChanges
  readonly cost?: Partial<CostBudget>
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

/** A cost budget with other settings. Buckets that are not named keep their amounts. */
function changedCost(scope: BudgetScope, known: BudgetRecord | undefined, changes: Partial<CostBudget>): CostBudget {
  const before = costOf(known)
  if (before === undefined && changes.amounts === undefined)
    throw new UsageError(`${scopeText(scope)} has no cost budget yet. Pass --cost.`)
  return { ...before, ...changes, amounts: { ...before?.amounts, ...changes.amounts } }
}

/** The settings of a cost budget. */
function costOf({ cost }: Partial<BudgetRecord> = {}): CostBudget | undefined {
  return cost && { amounts: cost.amounts, windowMs: cost.windowMs }
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
    if (!isLifted) throw noBudget(scope, partWord(options))
    writeResult(console, options.output, { ...scope, isLifted })
    console.say(`${scopeText(scope)} has no ${partWord(options)}budget now.`)
    return ExitCode.done
  })
}

/** Removes a budget, or parts of it. Returns whether there was one. */
async function liftPart(store: StoreContract, scope: BudgetScope, options: LiftOptions, by: By): Promise<boolean> {
  const parts = partsOf(options)
  if (parts.length === 0) return store.budgets.lift(scope, by)
  const known = (await store.budgets.list()).find(budget => isSameScope(budget, scope))
  const kept: Budget = { failures: known?.failures, retries: allowanceOf(known), cost: costOf(known) }
  if (parts.every(part => kept[part] === undefined)) return false
  const left: Budget = { ...kept, ...Object.fromEntries(parts.map(part => [part, undefined])) }
  if (Object.values(left).every(budget => budget === undefined)) return store.budgets.lift(scope, by)
  await store.budgets.set(scope, left, by)
  return true
}

const PARTS = { failures: 'failure ', retries: 'retry ', cost: 'cost ' } as const

/** The parts of a budget that the options name. */
function partsOf(options: LiftOptions): (keyof typeof PARTS)[] {
  return (['failures', 'retries', 'cost'] as const).filter(part => options[part])
}

/** The part that the options name, as a word before a budget; empty: several, or all of it. */
function partWord(options: LiftOptions): string {
  const [part, ...others] = partsOf(options)
  return part === undefined || others.length > 0 ? '' : PARTS[part]
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
