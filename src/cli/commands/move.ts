import { type Command, Option } from 'commander'
import {
  type Move,
  type MoveProgress,
  MoveRefusedError,
  moveStore,
  planMove,
  StoreNotReadyError,
} from '../../store/index.js'
import type { CommandContext } from '../command.js'
import { CommandError, ExitCode, UsageError } from '../errors.js'
import type { Console } from '../terminal/console.js'
import { OUTPUT_FORMATS, type OutputFormat, writeList } from '../terminal/output.js'
import { signalsOf } from '../terminal/signals.js'
import { table } from '../terminal/table.js'
import { type DurableStore, openStoreUrl } from './open-store.js'
import { nonEmpty } from './options.js'

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
  lane: 'lanes',
  policy: 'policies',
  task: 'tasks',
  key: 'idempotency keys',
  audit: 'audit records',
}

/** How often a move that takes long says how far it is. */
const PROGRESS_EVERY_MS = 1000

/** Enough of a checksum for people to compare. */
const SHOWN_DIGITS = 12

/** Adds `redrive move`. */
export function addMove(program: Command, context: CommandContext): void {
  program
    .command('move')
    .description('move everything that a store holds to another; the source keeps it')
    .requiredOption('--from <url>', "the source, such as 'sqlite:./.redrive/redrive.db'", nonEmpty)
    .requiredOption('--to <url>', "the target, such as 'postgres://host/database'", nonEmpty)
    .option('--dry-run', 'show what would be moved, and move nothing')
    .addOption(new Option('--output <format>', 'how data is written').choices(OUTPUT_FORMATS).default('table'))
    .action(async (options: MoveCommandOptions) => context.end(await move(context, options)))
    .addHelpText(
      'after',
      `
Tasks with their ledger, dead letters, lanes with their limits, holds and
pauses, policies, idempotency keys and audit records; then both are read once
more, and counted and summed up. Stop whatever uses either store before.

It refuses a source with running tasks, and a target that holds anything else.
Ctrl-C stops it after the page that is under way, and ends with 3; the same
command then goes on with the rest, as it does after a crash.

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
  { console, environment }: CommandContext,
  source: DurableStore,
  { to, output }: MoveCommandOptions,
): Promise<ExitCode> {
  const target = await openStoreUrl(to, environment, { mayCreate: true })
  const signals = signalsOf(environment)
  const stop = new AbortController()
  void signals.next().then(name => {
    console.say(`${name}: stopping after this page.`)
    stop.abort()
  })
  try {
    const onProgress = teller(console)
    const { sections, isStopped } = await moveStore(source, target, { signal: stop.signal, onProgress })
    write(console, output, sections)
    if (isStopped) {
      console.say('Stopped: what was moved stays there. The same command goes on with the rest.')
      return ExitCode.partly
    }
    console.say('Moved and verified: both stores hold the same, by count and by checksum.')
    console.say('The source still has everything. Start no worker on it again: its tasks would run twice.')
    return ExitCode.done
  } finally {
    signals.close()
    await target.close()
  }
}

/** Says what a move would do. */
async function preview(
  { console, environment }: CommandContext,
  source: DurableStore,
  { to, output }: MoveCommandOptions,
): Promise<ExitCode> {
  const target = await openStoreUrl(to, environment, { mayCreate: false }).catch((error: unknown) => {
    if (!(error instanceof StoreNotReadyError || error instanceof CommandError)) throw error
    console.say('The target is not ready yet: a move would make it. A dry run takes it as empty.')
    return undefined
  })
  try {
    const plan = await planMove(source, target ?? NOTHING, { onProgress: teller(console) })
    write(console, output, plan)
    const { running } = await source.count({ status: 'running' })
    if (running > 0) console.say(`${running} running: stop the workers of the source before you move.`)
    const left = plan.reduce((sum, { source, before }) => sum + source - before, 0)
    console.say(`${left} would be moved. This was a dry run: 0 moved.`)
    return ExitCode.done
  } finally {
    await target?.close()
  }
}

const NOTHING = { exportPage: async () => ({ items: [] }) }

/** Says how far it is, now and then. */
function teller(console: Console): (progress: MoveProgress) => void {
  let saidAt = performance.now()
  return ({ step, section, done, total }) => {
    if (performance.now() - saidAt < PROGRESS_EVERY_MS) return
    saidAt = performance.now()
    console.say(`${step} ${NAMES[section]}: ${done}${total === undefined ? '' : ` of ${total}`}`)
  }
}

function write(console: Console, output: OutputFormat, parts: readonly Part[]): void {
  const isMove = parts.some(({ moved }) => moved !== undefined)
  const titles = ['WHAT', 'AT THE SOURCE', 'THERE BEFORE', ...(isMove ? ['MOVED', 'CHECKSUM'] : [])]
  const cellsOf = ({ section, source, before, moved, checksum = '' }: Part) => [
    ...[NAMES[section], String(source), String(before)],
    ...(isMove ? [String(moved), checksum.slice(0, SHOWN_DIGITS)] : []),
  ]
  writeList(console, output, parts, {
    toJson: part => part,
    toTable: () =>
      table(
        titles.map(title => ({ title })),
        parts.map(part => ({ cells: cellsOf(part) })),
        console,
      ),
  })
}
