import { type Command, Option } from 'commander'
import { listLanes } from '../../../operate/index.js'
import type { LaneState } from '../../../operate/internal.js'
import type { CommandContext } from '../../command.js'
import { type ExitCode, UsageError } from '../../errors.js'
import { noMatch } from '../shared/no-match.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions, withPageOptions } from '../shared/options.js'
import { type PageOptions, printList } from '../shared/print-list.js'
import { addLaneControl } from './control.js'
import { isIdleRule, laneTable } from './text.js'

interface LaneListOptions extends CommonOptions, PageOptions {
  readonly kind?: string
  readonly category?: string
  readonly key?: string
  readonly state?: LaneState
}

const STATES: readonly LaneState[] = ['open', 'paused', 'gated', 'blocked', 'held']

/** Adds `redrive lane`. */
export function addLane(program: Command, context: CommandContext): void {
  const lane = program.command('lane').description('List, pause, resume and limit lanes')
  const ls = withLaneOptions(
    lane.command('ls').description('List lanes, with their tasks, their state and their limits'),
  )
    .addOption(new Option('--state <state>', 'Only lanes in this state').choices(STATES))
    .action(async (options: LaneListOptions) => context.end(await printLanes(context, options)))
  withCommonOptions(withPageOptions(ls, 'lanes')).addHelpText(
    'after',
    `
A lane is all tasks with the same kind, category and key. It is paused by an
operator, gated while its kind fails too often (see redrive budget ls), or held
while a rate limit asks to wait. An ordered lane is held too while its first
task waits for its next attempt: its state is shown as 'waits'. It is blocked if
it stops at dead letters and has one. Lanes with work come first. Pauses and
limits for lanes that do not exist yet are listed last, with 'any' for names
that they leave open. A lane with a key goes by itself once its tasks are
pruned, unless it is paused or has limits of its own.

Examples:
  redrive lane ls --state held
  redrive lane ls --kind send-email --output json`,
  )
  addLaneControl(lane, context)
}

/** Adds the flags that select lanes. */
function withLaneOptions(command: Command): Command {
  return command
    .option('--kind <kind>', 'Only lanes of this kind', nonEmpty)
    .option('--category <category>', 'Only lanes in this category', nonEmpty)
    .option('--key <key>', 'Only the lanes with this key', nonEmpty)
}

function printLanes({ console, environment }: CommandContext, options: LaneListOptions): Promise<ExitCode> {
  const { kind, category, key, state } = options
  return withStore(options, environment, async store => {
    const all = await listLanes(store, { kind, category, key })
    const isTable = options.output === 'table'
    const lanes = all.filter(lane => (state === undefined || lane.state === state) && !(isTable && isIdleRule(lane)))
    const now = await store.now()
    return printList(console, options, {
      read: async ({ limit, after = '0' }) => {
        if (!/^\d{1,9}$/.test(after))
          throw new UsageError('--after must be the number that the page before ended with.')
        const end = Number(after) + limit
        const items = lanes.slice(Number(after), end)
        return end < lanes.length ? { items, next: String(end) } : { items }
      },
      total: async () => lanes.length,
      toJson: lane => lane,
      toTable: (page, layout) => laneTable(page, console, now, layout),
      none: () => noMatch(store, 'lanes', { kind, category, key }),
    })
  })
}
