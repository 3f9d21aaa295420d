import { type Command, Option } from 'commander'
import { type Move, MoveRefusedError, moveStore, planMove, StoreNotReadyError } from '../../../store/index.js'
import type { MoveProgress } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode, UsageError } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import { OUTPUT_FORMATS, type OutputFormat, writeList } from '../../terminal/output.js'
import { type Progress, reporter, withProgress } from '../../terminal/progress.js'
import { table } from '../../terminal/table.js'
import { type DurableStore, openStoreUrl } from '../shared/open-store.js'
import { nonEmpty } from '../shared/options.js'

interface MoveCommandOptions {
  readonly from: string
  readonly to: string
  readonly dryRun?: boolean
  readonly output: OutputFormat
}

/** A section that is to be moved, or was; a dry run moves and verifies nothing. */
type Part = Pick<Move['sections'][number], 'section' | 'source' | 'before'> & Partial<Move['sections'][number]>

/** The name of each section in tables and messages. */
const NAMES: Readonly<Record<Part['section'], string>> = {
  pause: 'pause rules',
  limit: 'limit rules',
  shared: 'shared limits',
  budget: 'budgets',
  declared: 'declared limits',
  lane: 'lanes',
  policy: 'policies',
  task: 'tasks',
  unique: 'unique keys',
  record: 'operations and other records',
  operation_tally: 'outcomes of operations',
  group: 'failure groups',
  tally: 'group figures',
  cost: 'costs',
  run: 'runs',
  item: 'positions of items',
  output: 'results to write',
  key: 'idempotency keys',
  audit: 'audit records',
}

/** The digits of a checksum in a table: enough for people to compare. */
const SHOWN_DIGITS = 12

/** Adds `redrive move`. */
export function addMove(program: Command, context: CommandContext): void {
  program
    .command('move')
    .description('Move everything from one store to another; the source keeps it')
    .requiredOption('--from <url>', "Source, such as 'sqlite:./.redrive/redrive.db'", nonEmpty)
    .requiredOption('--to <url>', "Target, such as 'postgres://host/database'", nonEmpty)
    .option('--dry-run', 'Show what would be moved, and move nothing')
    .addOption(new Option('--output <format>', 'Output format').choices(OUTPUT_FORMATS).default('table'))
    .action(async (options: MoveCommandOptions) => context.end(await move(context, options)))
    .addHelpText(
      'after',
      `
Moves tasks with their ledger, dead letters, lanes with their limits, holds and
pauses, budgets, policies, failure groups, operations, runs, idempotency keys
and audit records. Then it reads both stores again and compares counts and
checksums. Stop everything that uses either store first.

Refuses a source with running tasks, and a target that holds anything else.
Ctrl-C stops it after the current page, and exits with 3. Run the same command
again to continue, after a crash too.

Examples:
  redrive move --from sqlite:./redrive.db --to postgres://db/app --dry-run
  redrive move --from sqlite:./redrive.db --to postgres://db/app`,
    )
}

async function move(context: CommandContext, options: MoveCommandOptions): Promise<ExitCode> {
  const { environment } = context
  if (options.from === options.to) throw new UsageError('--from and --to are the same store.')
  const source = await openStoreUrl(options.from, environment, { mayCreate: false })
  try {
    return await (options.dryRun ? preview(context, source, options) : moveAll(context, source, options))
  } catch (error) {
    throw error instanceof MoveRefusedError ? new UsageError(error.message) : error
  } finally {
    await source.close()
  }
}

async function moveAll(
  context: CommandContext,
  source: DurableStore,
  { to, output }: MoveCommandOptions,
): Promise<ExitCode> {
  const { console, environment } = context
  const target = await openStoreUrl(to, environment, { mayCreate: true })
  try {
    const { sections, isStopped } = await withProgress(context, 'page', ({ signal, report }) =>
      moveStore(source, target, { signal, onProgress: reportTo(report) }),
    )
    write(console, output, sections)
    if (isStopped) {
      console.say('Stopped. The target keeps what was moved: run the same command again to continue.')
      return ExitCode.partly
    }
    console.say('Moved and verified: both stores hold the same, by count and by checksum.')
    console.say('The source still has everything. Do not start a worker on it again: its tasks would run twice.')
    return ExitCode.done
  } finally {
    await target.close()
  }
}

/** Prints what a move would do. */
async function preview(
  context: CommandContext,
  source: DurableStore,
  { to, output }: MoveCommandOptions,
): Promise<ExitCode> {
  const { console, environment } = context
  const target = await openStoreUrl(to, environment, { mayCreate: false }).catch((error: unknown) => {
    if (!(error instanceof StoreNotReadyError || error instanceof CommandError)) throw error
    console.say('The target does not exist yet: a move would create it. For this dry run it counts as empty.')
    return undefined
  })
  try {
    const plan = await planMove(source, target, { onProgress: reportTo(reporter(context)) })
    write(console, output, plan)
    const { running } = await source.count({ status: 'running' })
    if (running > 0) console.say(`${running} running: stop the workers of the source before you move it.`)
    const left = plan.reduce((sum, { source, before }) => sum + source - before, 0)
    console.say(`${left} would be moved. This was a dry run: 0 moved.`)
    return ExitCode.done
  } finally {
    await target?.close()
  }
}

function reportTo(report: Progress['report']): (progress: MoveProgress) => void {
  return ({ step, section, done, total }) =>
    report(() => `${step} ${NAMES[section]}: ${done}${total === undefined ? '' : ` of ${total}`}`)
}

function write(console: Console, output: OutputFormat, parts: readonly Part[]): void {
  const isMove = parts.some(({ moved }) => moved !== undefined)
  const titles = ['WHAT', 'AT THE SOURCE', 'THERE BEFORE', ...(isMove ? ['MOVED', 'CHECKSUM'] : [])]
  const cellsOf = ({ section, source, before, moved, checksum = '' }: Part) => [
    ...[NAMES[section], String(source), String(before)],
    ...(isMove ? [String(moved), checksum.slice(0, SHOWN_DIGITS)] : []),
  ]
  const columns = titles.map(title => ({ title }))
  writeList(console, output, parts, () =>
    table(
      columns,
      parts.map(part => ({ cells: cellsOf(part) })),
      console,
    ),
  )
}
