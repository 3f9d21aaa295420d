import type { Command } from 'commander'
import { type KindFigures, type StoreFigures, storeFigures } from '../../operate/index.js'
import { formatDuration } from '../../policy/index.js'
import type { BudgetStore, TaskStatus } from '../../store/index.js'
import type { CommandContext } from '../command.js'
import { ExitCode } from '../errors.js'
import { grouped } from '../terminal/chart.js'
import type { Console, Paint } from '../terminal/console.js'
import { writeOne } from '../terminal/output.js'
import { NAME_WIDTH, table } from '../terminal/table.js'
import { quoted } from '../terminal/visible.js'
import { withStore } from './open-store.js'
import { type CommonOptions, withCommonOptions } from './options.js'
import { tasksText } from './waiting-text.js'

const STATUSES: readonly TaskStatus[] = ['waiting', 'running', 'succeeded', 'skipped', 'dead', 'cancelled']

/** Adds `redrive stats`. */
export function addStats(program: Command, context: CommandContext): void {
  const stats = program
    .command('stats')
    .description('Show how many tasks of each kind wait, run, succeeded, died …')
    .action(async (options: CommonOptions) => context.end(await printStats(context, options)))
  withCommonOptions(stats).addHelpText(
    'after',
    `
Counts the tasks that the store still has: ended ones until they are pruned. The
age is that of the task that has been ready for longest.

Examples:
  redrive stats
  redrive stats --output json | jq '[.kinds[].dead] | add'`,
  )
}

function printStats({ console, environment }: CommandContext, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const figures = await storeFigures(store)
    const { kinds, workers } = figures
    const now = await store.now()
    if (kinds.length > 0 || options.output !== 'table') {
      writeOne(console, options.output, figures, () => figuresTable(figures, console, now))
    }
    if (kinds.length === 0) console.say('No tasks.')
    console.say(
      workers === 0
        ? 'No worker is running.'
        : `${grouped(workers)} ${workers === 1 ? 'worker' : 'workers'} running: redrive worker ls`,
    )
    await sayWhatIsKeptBack(console, store, kinds)
    return ExitCode.done
  })
}

/** Says which tasks wait for something other than a worker, and how to see more of it. */
async function sayWhatIsKeptBack(
  console: Console,
  store: { readonly budgets: Pick<BudgetStore, 'list'> },
  kinds: readonly KindFigures[],
): Promise<void> {
  const [paused, held] = [total(kinds, ({ paused }) => paused), total(kinds, ({ held }) => held)]
  if (paused > 0) console.say(`${tasksText(paused)} in paused lanes: redrive lane ls --state paused`)
  if (held > 0) console.say(`${tasksText(held)} in held lanes: redrive lane ls --state held`)
  const open = (await store.budgets.list()).filter(({ gate }) => gate.state !== 'closed')
  if (open.length === 0) return
  const names = [...new Set(open.map(({ kind }) => quoted(kind)))].join(', ')
  console.say(`Too many attempts fail, so tasks are kept back: ${names}. See: redrive budget ls`)
}

function figuresTable({ kinds }: StoreFigures, { width, paint }: Console, now: number): string {
  const columns = [
    { title: 'KIND', minWidth: NAME_WIDTH },
    ...STATUSES.map(status => ({ title: status.toUpperCase() })),
    { title: 'AGE' },
  ]
  const rows = kinds.map(figures => ({
    cells: [figures.kind, ...STATUSES.map(status => grouped(figures[status])), ageText(figures, now)],
    paints: [undefined, ...STATUSES.map(status => countPaint(status, figures[status], paint))],
  }))
  const sums = STATUSES.map(status => grouped(total(kinds, figures => figures[status])))
  const all = kinds.length > 1 ? [{ cells: ['all', ...sums, ''], paints: [paint.bold] }] : []
  return table(columns, [...rows, ...all], { width, paint })
}

function ageText({ readySince }: KindFigures, now: number): string {
  if (readySince === null) return ''
  const seconds = Math.max(0, Math.floor((now - Date.parse(readySince)) / 1000))
  return formatDuration(seconds * 1000)
}

function countPaint(status: TaskStatus, count: number, paint: Paint): ((text: string) => string) | undefined {
  if (count === 0) return paint.dim
  return status === 'dead' ? paint.red : undefined
}

function total(kinds: readonly KindFigures[], count: (figures: KindFigures) => number): number {
  return kinds.reduce((sum, figures) => sum + count(figures), 0)
}
