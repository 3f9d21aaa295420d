import type { Command } from 'commander'
import { listWorkers, type WorkerView } from '../../../operate/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import { writeList } from '../../terminal/output.js'
import { NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { relative } from '../../terminal/times.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, withCommonOptions } from '../shared/options.js'

/** Adds `redrive worker ls`. */
export function addWorkerList(worker: Command, context: CommandContext): void {
  const ls = worker
    .command('ls')
    .description('List the live workers, with their release and the kinds that they run')
    .action(async (options: CommonOptions) => context.end(await printWorkers(context, options)))
  withCommonOptions(ls).addHelpText(
    'after',
    `
A worker is live until its lease expires: 30 s after its last heartbeat or claim,
by default. Its release is the version of your application: --release,
REDRIVE_RELEASE, or the version in your package.json.

Examples:
  redrive worker ls
  redrive worker ls --output json | jq -r '.[].release' | sort | uniq -c`,
  )
}

function printWorkers({ console, environment }: CommandContext, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const [workers, now] = await Promise.all([listWorkers(store), store.now()])
    writeList(console, options.output, workers, () => workerTable(workers, console, now))
    if (workers.length === 0) console.say('No worker is running.')
    return ExitCode.done
  })
}

function workerTable(workers: readonly WorkerView[], { width, paint }: Console, now: number): string {
  const columns = [
    { title: 'NAME', minWidth: NAME_WIDTH },
    { title: 'RELEASE', minWidth: NAME_WIDTH },
    { title: 'STARTED' },
    { title: 'HEARTBEAT' },
    { title: 'HOST', minWidth: NAME_WIDTH },
  ]
  const rows = workers.map(({ name, release, since, beatAt, host, kinds, categories, isPaused, overruns }) => ({
    cells: [
      name,
      release ?? '-',
      since === null ? '-' : relative(since, now),
      beatAt === null ? '-' : relative(beatAt, now),
      host ?? '-',
    ],
    details: paragraph(
      `${isPaused ? 'paused by its code; ' : ''}${kindsText(kinds, categories)}${overrunsText(overruns)}`,
      { width, indent: '  ' },
    ),
  }))
  return table(columns, rows, { width, paint })
}

function overrunsText({ length }: readonly string[]): string {
  if (length === 0) return ''
  return `; ${length === 1 ? '1 handler is' : `${length} handlers are`} still running after a timeout or a cancellation`
}

function kindsText(kinds: readonly string[] | null, categories: readonly string[] | null): string {
  if (kinds === null) return 'runs unknown kinds'
  return `runs ${kinds.join(', ')}${categories === null ? '' : ` (${categories.join(', ')})`}`
}
