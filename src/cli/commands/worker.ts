import type { Command } from 'commander'
import type { Store } from '../../store/index.js'
import { type Outage, type TaskDefinition, Worker } from '../../task/index.js'
import { fanOut, logTo } from '../../telemetry/index.js'
import type { CommandContext } from '../command.js'
import { ExitCode, errorText, UsageError } from '../errors.js'
import { consoleLogger } from '../terminal/console-logger.js'
import { writeOne } from '../terminal/output.js'
import { type Signals, signalsOf } from '../terminal/signals.js'
import { loadTasks } from './load-tasks.js'
import { openStore } from './open-store.js'
import { type CommonOptions, collect, duration, wholeNumber, withCommonOptions } from './options.js'
import { Tally } from './tally.js'
import { untilEmpty } from './until-empty.js'

interface WorkerCommandOptions extends CommonOptions {
  readonly concurrency: number
  readonly kind?: readonly string[]
  readonly category?: readonly string[]
  readonly lease?: number
  readonly grace?: number
  readonly keep?: number
  readonly keepDead?: number
  readonly untilEmpty?: boolean
  readonly quiet?: boolean
}

/** Adds `redrive worker`. */
export function addWorker(program: Command, context: CommandContext): void {
  const worker = program
    .command('worker')
    .description('run the tasks of the store with the handlers of a module')
    .argument('<file>', 'a module that exports what defineTask() returns')
    .option('--concurrency <n>', 'how many tasks run at once', wholeNumber(1, 10_000), 10)
    .option('--kind <kind>', 'only this kind; may be repeated', collect)
    .option('--category <category>', 'only this category; may be repeated', collect)
    .option(
      '--lease <duration>',
      'how long its tasks stay its own after its last sign of life (default: 30s)',
      duration(1),
    )
    .option('--grace <duration>', 'how long running tasks may take to end when it stops (default: 10s)', duration(0))
    .option(
      '--keep <duration>',
      'forget what is over after this time, dead letters excepted (default: never)',
      duration(0),
    )
    .option('--keep-dead <duration>', 'forget dead letters after this time (default: never)', duration(0))
    .option('--until-empty', 'stop when nothing is waiting or running')
    .option('--quiet', 'log warnings and errors only')
    .action(async (file: string, options: WorkerCommandOptions) => context.end(await work(context, file, options)))
  withCommonOptions(worker).addHelpText(
    'after',
    `
SIGINT and SIGTERM stop it: running tasks may end within the grace period, and
the rest is handed back at no cost. A second signal ends it at once, with 1.
With --until-empty, it ends with 3 if tasks went to the dead letters.

What is over are tasks that succeeded, were skipped or were cancelled, with
their history, idempotency keys whose work is done, and audit records. The id of
a task that was forgotten is free again.

Examples:
  redrive worker ./tasks.js --keep 30d
  redrive worker ./tasks.js --kind send-email --concurrency 50
  redrive worker ./tasks.js --until-empty --output json`,
  )
}

async function work(context: CommandContext, file: string, options: WorkerCommandOptions): Promise<ExitCode> {
  const { environment, console } = context
  const tasks = chosen(await loadTasks(file, environment.cwd), options.kind, file)
  const store = await openStore(options, environment, { mayCreate: true })
  const tally = new Tally()
  const logger = consoleLogger(console, { from: options.quiet ? 'warn' : 'debug' })
  const { concurrency, category: categories, lease, grace, keep, keepDead } = options
  const sink = fanOut(logTo(logger), event => tally.add(event))
  const retention = { ended: keep, keys: keep, audit: keep, dead: keepDead }
  const onOutage = (outage: Outage) =>
    console.say(
      outage.isOver ? 'The store answers again.' : `${errorText(outage.failure)} The worker asks until it answers.`,
    )
  const worker = new Worker(store, { tasks, concurrency, categories, lease, grace, retention, sink, onOutage })
  const signals = signalsOf(environment)
  let isCutShort = false
  try {
    await worker.start()
    console.say(`Worker ${worker.name} runs ${tasks.map(({ kind }) => kind).join(', ')}, ${concurrency} at once.`)
    console.say(await stopReason(worker, store, tasks, options, signals))
    isCutShort = (await stopped(worker, signals)) === 'cut short'
  } finally {
    signals.close()
    // Cut short, the worker still uses it.
    if (!isCutShort) await store.close()
  }
  if (isCutShort) {
    console.say('Ended at once: what was running will be taken over when the lease has run out.')
    return ExitCode.error
  }
  if (options.output !== 'table') writeOne(console, options.output, tally.counts(), () => '')
  console.say(`Stopped: ${tally.text()}.`)
  return options.untilEmpty && tally.dead > 0 ? ExitCode.partly : ExitCode.done
}

/** Waits until there is a reason to stop. Rejects if the worker cannot go on. */
async function stopReason(
  worker: Worker,
  store: Store,
  tasks: readonly TaskDefinition[],
  options: WorkerCommandOptions,
  signals: Signals,
): Promise<string> {
  const signal = signals.next().then(name => `${name}: stopping. Once more, and it ends at once.`)
  const failure = worker.stopped.then(() => 'The worker has stopped.')
  if (!options.untilEmpty) return Promise.race([signal, failure])
  const isOver = new AbortController()
  const scope = { kinds: tasks.map(({ kind }) => kind), categories: options.category }
  const empty = untilEmpty(store, scope, isOver.signal).then(() => 'Nothing is waiting or running any more.')
  try {
    return await Promise.race([signal, empty, failure])
  } finally {
    isOver.abort()
  }
}

async function stopped(worker: Worker, signals: Signals): Promise<'stopped' | 'cut short'> {
  return Promise.race([worker.stop().then(() => 'stopped' as const), signals.next().then(() => 'cut short' as const)])
}

function chosen(
  tasks: readonly TaskDefinition[],
  kinds: readonly string[] | undefined,
  file: string,
): TaskDefinition[] {
  const unknown = kinds?.find(kind => tasks.every(task => task.kind !== kind))
  if (unknown !== undefined) {
    const known = tasks.map(({ kind }) => kind).join(', ')
    throw new UsageError(`'${file}' defines no task of kind '${unknown}'. It defines: ${known}`)
  }
  return tasks.filter(({ kind }) => kinds?.includes(kind) ?? true)
}
