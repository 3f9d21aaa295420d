import type { Command } from 'commander'
import { type StoreFigures, storeFigures } from '../../../operate/index.js'
import type { KindFigures } from '../../../operate/internal.js'
import { formatDuration } from '../../../policy/index.js'
import type { GroupStore } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { grouped } from '../../terminal/chart.js'
import type { Console, Paint } from '../../terminal/console.js'
import { writeOne } from '../../terminal/output.js'
import { NAME_WIDTH, table } from '../../terminal/table.js'
import { SHOWN } from '../groups/groups.js'
import { keptBackTexts, unattendedText } from '../ops/kept-back.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, withCommonOptions } from '../shared/options.js'

type Count = Exclude<keyof KindFigures, 'kind' | 'readySince'>

/** The counts of a kind, in the order of a task's life. Those in `RARE` are shown only if there are any. */
const COUNTS: readonly Count[] = [
  'waiting',
  'ready',
  'limited',
  'held',
  'gated',
  'budgeted',
  'paused',
  'running',
  'succeeded',
  'skipped',
  'dead',
  'cancelled',
]
const RARE: ReadonlySet<Count> = new Set(['limited', 'held', 'gated', 'budgeted', 'paused', 'skipped', 'cancelled'])

/** These counts go below their row where kinds need the room. */
const MINOR: ReadonlySet<Count> = new Set([...RARE, 'succeeded'])

/** Failure groups are counted up to here. */
const MAX_GROUPS = 100

/** Adds `redrive stats`. */
export function addStats(program: Command, context: CommandContext): void {
  const stats = program
    .command('stats')
    .description('Show how many tasks of each kind wait, run, succeeded, died …')
    .action(async (options: CommonOptions) => context.end(await printStats(context, options)))
  withCommonOptions(stats).addHelpText(
    'after',
    `
Counts the tasks that the store still has: ended ones until they are pruned. Of
those that WAIT, some are READY (they could start now, had a worker a free
slot), LIMITED (due, but behind others in an ordered lane, or beyond a
concurrency or a rate), HELD by a rate limit, GATED by a failure budget,
BUDGETED (held by a retry budget) or PAUSED; the others are not due yet.
The AGE is that of the task that has been ready for longest. Columns without any
task are left out. Where a terminal has no room for a column, its counts are
printed below their row.

Examples:
  redrive stats
  redrive stats --output json | jq '[.kinds[].dead] | add'`,
  )
}

function printStats({ console, environment }: CommandContext, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const figures = await storeFigures(store)
    const { kinds, workers, unattended } = figures
    const now = await store.now()
    if (kinds.length > 0 || options.output !== 'table') {
      writeOne(console, options.output, figures, () => figuresTable(figures, console, now))
    }
    if (kinds.length === 0) console.say('No tasks.')
    console.say(workersText(workers, (await store.workers()).filter(({ isPaused }) => isPaused).length))
    for (const text of [...unattended.map(unattendedText), ...keptBackTexts(kinds)]) console.say(text)
    await sayWhatFails(console, store)
    return ExitCode.done
  })
}

function workersText(running: number, paused: number): string {
  if (running === 0) return 'No worker is running.'
  const count = `${grouped(running)} ${running === 1 ? 'worker' : 'workers'} running`
  const pausedText = paused === running ? ', paused by its code' : `, ${grouped(paused)} of them paused by its code`
  return `${count}${paused === 0 ? '' : pausedText}: ${suggest('worker ls')}`
}

/** Says how many failure groups have tasks now, and how to see them. */
async function sayWhatFails(console: Console, store: { readonly groups: Pick<GroupStore, 'list'> }): Promise<void> {
  const { items, next } = await store.groups.list({ states: SHOWN }, { limit: MAX_GROUPS })
  const failing = items.filter(({ retrying, dead }) => retrying + dead > 0).length
  if (failing === 0) return
  const count = `${failing}${next === undefined ? '' : ' or more'}`
  console.say(`${count} failure ${failing === 1 ? 'group' : 'groups'} with tasks: ${suggest('groups ls')}`)
}

function figuresTable({ kinds }: StoreFigures, { width, paint }: Console, now: number): string {
  const counts = COUNTS.filter(count => !RARE.has(count) || total(kinds, count) > 0)
  const columns = [
    { title: 'KIND', minWidth: NAME_WIDTH, isName: true },
    ...counts.map(count => ({ title: count.toUpperCase(), isMinor: MINOR.has(count) })),
    { title: 'AGE' },
  ]
  const rows = kinds.map(figures => ({
    cells: [figures.kind, ...counts.map(count => grouped(figures[count])), ageText(figures, now)],
    paints: [undefined, ...counts.map(count => countPaint(count, figures[count], paint))],
  }))
  const sums = counts.map(count => grouped(total(kinds, count)))
  const all = kinds.length > 1 ? [{ cells: ['all', ...sums, ''], paints: [paint.bold] }] : []
  return table(columns, [...rows, ...all], { width, paint })
}

function ageText({ readySince }: KindFigures, now: number): string {
  if (readySince === null) return ''
  const seconds = Math.max(0, Math.floor((now - Date.parse(readySince)) / 1000))
  return formatDuration(seconds * 1000)
}

function countPaint(count: Count, tasks: number, paint: Paint): ((text: string) => string) | undefined {
  if (tasks === 0) return paint.dim
  return count === 'dead' ? paint.red : undefined
}

function total(kinds: readonly KindFigures[], count: Count): number {
  return kinds.reduce((sum, figures) => sum + figures[count], 0)
}
