import { type Command, Option } from 'commander'
import type { By, LaneLimits, LaneRecord, LaneSelection } from '../../../store/index.js'
import type { SharedLimits } from '../../../store/internal.js'
import { isItem, type LimitRule, type StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import type { Console } from '../../terminal/console.js'
import { writeResult } from '../../terminal/output.js'
import { quoted } from '../../terminal/visible.js'
import { unknownKind } from '../shared/no-match.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, rate, wholeNumber, withCommonOptions } from '../shared/options.js'
import { limitText } from './text.js'

interface ControlOptions extends CommonOptions {
  readonly kind: string
  readonly category?: string
  readonly key?: string
  readonly why?: string
}

interface LimitOptions extends ControlOptions {
  readonly concurrency?: number
  readonly rate?: number
  readonly ordered?: boolean
  readonly onDead?: 'block'
  readonly shared?: boolean
  readonly perQuota?: boolean
  readonly none?: boolean
}

/** After a rule that may be mistyped. */
/** Adds the commands that change lanes: `pause`, `resume` and `limit`. */
export function addLaneControl(lane: Command, context: CommandContext): void {
  const pause = lane
    .command('pause')
    .description('Start no more tasks of these lanes; running ones go on')
    .action(async (options: ControlOptions) => context.end(await setPaused(context, options, true)))
  withControlOptions(pause).addHelpText(
    'after',
    `
Lanes of the same kind that are made later are paused too.

Examples:
  redrive lane pause --kind send-email --why 'the mail server is down'
  redrive lane pause --kind send-email --key tenant-7`,
  )

  const resume = lane
    .command('resume')
    .description('Start tasks of these lanes again')
    .action(async (options: ControlOptions) => context.end(await setPaused(context, options, false)))
  withControlOptions(resume).addHelpText('after', '\nExample:\n  redrive lane resume --kind send-email')

  const limit = lane
    .command('limit')
    .description('Limit how many tasks of a lane run at once, or start per second')
    .option('--concurrency <n>', 'Maximum number of tasks at once', wholeNumber(0, 1_000_000))
    .option('--rate <rate>', "Maximum rate of starts, such as '50/s' or '600/m'", rate)
    .option('--ordered', 'Run tasks strictly one after another')
    .addOption(
      new Option('--on-dead <act>', "With 'block', an ordered lane stops at its dead letter").choices(['block']),
    )
    .option('--shared', 'One limit for all these lanes together, instead of one for each')
    .option('--per-quota', 'One limit for the lanes of each quota together')
    .option('--none', 'Remove the limits')
    .action(async (options: LimitOptions) => context.end(await setLimits(context, options)))
  withControlOptions(limit).addHelpText(
    'after',
    `
New limits replace those that these lanes had, and hold for lanes that are made
later. With --shared, lanes are selected by --kind and --category; with
--per-quota, by --kind.

Examples:
  redrive lane limit --kind send-email --rate 50/s
  redrive lane limit --kind send-email --key tenant-7 --concurrency 1
  redrive lane limit --kind sync --ordered --on-dead block
  redrive lane limit --kind charge --shared --concurrency 20
  redrive lane limit --kind sync --per-quota --concurrency 3
  redrive lane limit --kind send-email --none`,
  )
}

function withControlOptions(command: Command): Command {
  return withCommonOptions(
    command
      .requiredOption('--kind <kind>', 'Lanes of this kind', nonEmpty)
      .option('--category <category>', 'Only lanes in this category', nonEmpty)
      .option('--key <key>', 'Only the lanes with this key', nonEmpty)
      .option('--why <text>', 'Reason, for the record', nonEmpty),
  )
}

function setPaused(
  { console, environment }: CommandContext,
  options: ControlOptions,
  isPaused: boolean,
): Promise<ExitCode> {
  const lanes = selected(options)
  return withStore(options, environment, async store => {
    const found = await store.lanes(lanes)
    if (!isPaused) checkResume(lanes, found)
    const isChanged = await changePause(store, lanes, found, { isPaused, who: environment.user, why: options.why })
    const running = found.reduce((sum, lane) => sum + lane.running, 0)
    writeResult(console, options.output, { ...lanes, isPaused, running })
    console.say(
      `${lanesText(lanes)} ${isPaused ? pausedText(running) : isChanged ? 'resumed.' : 'they were not paused.'}`,
    )
    if (isChanged) await sayUnknown(console, store, lanes, found)
    if (!isPaused && isItem(lanes)) sayStopped(console, await store.lanes(lanes))
    return ExitCode.done
  })
}

function pausedText(running: number): string {
  return running === 0 ? 'paused.' : `paused. ${running} ${running === 1 ? 'task is' : 'tasks are'} still running.`
}

/** A run goes on as a whole, and not by its lanes. */
function checkResume(lanes: LaneSelection, found: readonly LaneRecord[]): void {
  if (lanes.key === undefined || !isItem(lanes) || !found.some(lane => lane.isPaused)) return
  throw new UsageError(`These are the lanes of a run. ${continueText([lanes.key])}`)
}

/** Says which runs do not go on with the lanes of their pipeline: what stops a run, such as its budget, is for the run to end. */
function sayStopped(console: Console, lanes: readonly LaneRecord[]): void {
  const runs = [...new Set(lanes.flatMap(({ key, isPaused }) => (isPaused && key !== '' ? key : [])))]
  if (runs.length === 0) return
  const stay = runs.length === 1 ? '1 paused or stopped run stays so' : `${runs.length} paused or stopped runs stay so`
  console.say(`${stay}. ${continueText(runs)}`)
}

function continueText([first = '', ...others]: readonly string[]): string {
  const words = others.length === 0 ? first : 'RUN'
  return `To let it go on, run: ${suggest('pipeline continue', {}, words)}`
}

/** Pauses or resumes lanes. Returns false if there is nothing to resume. */
async function changePause(
  store: StoreContract,
  lanes: LaneSelection,
  found: readonly LaneRecord[],
  { isPaused, who, why }: By & { readonly isPaused: boolean },
): Promise<boolean> {
  const { pauses } = await store.laneRules(lanes)
  const isAnyPaused = pauses.some(rule => rule.isPaused) || found.some(lane => lane.isPaused)
  if (!isPaused && !isAnyPaused) return false
  // A pause that is repeated without a reason keeps the one that it had.
  const last = isPaused ? pauses.findLast(rule => rule.isPaused && isSame(rule, lanes)) : undefined
  await store.pause(lanes, { isPaused, who, why: why ?? last?.by?.why })
  return true
}

function setLimits({ console, environment }: CommandContext, options: LimitOptions): Promise<ExitCode> {
  const lanes = selected(options)
  const limits = limitsOf(options)
  return withStore(options, environment, async store => {
    await store.limit(lanes, limits, by(environment.user, options))
    // Without any limit means without one that these lanes share, too.
    const isAll = options.none && !options.shared && !options.perQuota
    const others = isAll ? (await sharedLimits(store, lanes)).filter(rule => isSame(rule, lanes)) : []
    for (const rule of others) await store.limit(lanes, withoutLimits(rule.limits), by(environment.user, options))
    writeResult(console, options.output, { ...lanes, limits })
    const text = limitText(limits)
    const scope = options.perQuota ? 'those of each quota together' : options.shared ? 'together' : 'each'
    if (text === '') await sayUnlimited(console, store, lanes)
    else console.say(`${lanesText(lanes)} limited to ${text}, ${scope}.`)
    await sayUnknown(console, store, lanes, await store.lanes(lanes))
    return ExitCode.done
  })
}

/** Says that lanes have no limits, or which ones they still share. */
async function sayUnlimited(console: Console, store: StoreContract, lanes: LaneSelection): Promise<void> {
  const shared = await sharedLimits(store, lanes)
  console.say(`${lanesText(lanes)} no limits${shared.length === 0 ? '' : ' of their own'} now.`)
  for (const { kind, category, limits } of shared) {
    const scope = limits.isPerQuota ? '--per-quota' : '--shared'
    const command = suggest('lane limit', { '--kind': kind, '--category': category, [scope]: true, '--none': true })
    const what = limits.isPerQuota ? 'The limit of each quota' : 'A shared limit'
    console.say(`${what} stays: ${limitText(limits)}. To remove it, run: ${command}`)
  }
}

/** The limits that these lanes share, among themselves or with others. */
async function sharedLimits(store: StoreContract, lanes: LaneSelection): Promise<SharedRule[]> {
  const { limits } = await store.laneRules(lanes)
  return limits.filter((rule): rule is SharedRule => 'isShared' in rule.limits && limitText(rule.limits) !== '')
}

type SharedRule = LimitRule & { readonly limits: SharedLimits }

function withoutLimits({ isPerQuota }: SharedLimits): SharedLimits {
  return { isShared: true, ...(isPerQuota && { isPerQuota }) }
}

/** Says so if no lane is concerned yet: the kind may be misspelt. */
async function sayUnknown(
  console: Console,
  store: StoreContract,
  { kind }: LaneSelection,
  found: readonly LaneRecord[],
): Promise<void> {
  if (found.length > 0) return
  const unknown = await unknownKind(store, kind)
  if (unknown !== undefined) console.say(unknown)
  console.say('There is no such lane yet: it holds for lanes that are made later.')
}

function isSame(a: LaneSelection, b: LaneSelection): boolean {
  return a.kind === b.kind && a.category === b.category && a.key === b.key
}

function limitsOf(options: LimitOptions): LaneLimits | SharedLimits {
  checkLimitOptions(options)
  const { concurrency, rate: perSecond, ordered, onDead, shared, perQuota } = options
  if (!shared && !perQuota) {
    return {
      ...(concurrency !== undefined && { concurrency }),
      ...(perSecond !== undefined && { perSecond }),
      ...(ordered && { isOrdered: true }),
      ...(onDead !== undefined && { onDead }),
    }
  }
  return {
    isShared: true,
    ...(perQuota && { isPerQuota: true }),
    ...(concurrency !== undefined && { concurrency }),
    ...(perSecond !== undefined && { rates: { starts: { perSecond } } }),
  }
}

function checkLimitOptions(options: LimitOptions): void {
  const { concurrency, rate: perSecond, ordered, onDead, shared, perQuota, category, key, none } = options
  const isAny = concurrency !== undefined || perSecond !== undefined || ordered === true
  if (isAny === (none === true)) {
    throw new UsageError('Which limits? Pass --concurrency, --rate or --ordered; or --none to remove them.')
  }
  if (onDead !== undefined && !ordered) {
    throw new UsageError('--on-dead is for ordered lanes. Add --ordered.')
  }
  if (shared && perQuota) throw new UsageError('--shared and --per-quota exclude each other. Leave out one.')
  if (perQuota && (category ?? key) !== undefined) {
    throw new UsageError('--per-quota is for a whole kind. Leave out --category and --key.')
  }
  if (ordered && (shared || perQuota)) {
    throw new UsageError(`--ordered is for each lane by itself. Leave out ${perQuota ? '--per-quota' : '--shared'}.`)
  }
}

function selected({ kind, category, key }: ControlOptions): LaneSelection {
  return { kind, ...(category !== undefined && { category }), ...(key !== undefined && { key }) }
}

function by(who: string, { why }: ControlOptions): By {
  return { who, why }
}

function lanesText({ kind, category, key }: LaneSelection): string {
  const rest = [
    ...(category === undefined ? [] : [` in category ${quoted(category)}`]),
    ...(key === undefined ? [] : [` with key ${quoted(key)}`]),
  ]
  return `Lanes of kind ${quoted(kind)}${rest.join('')}:`
}
