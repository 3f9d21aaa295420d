import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { releaseOf } from '../../../engine/internal.js'
import { type MetricsRegistry, storeMetrics, workMetrics } from '../../../metrics/index.js'
import { type Notifier, type NotifyOptions, notify } from '../../../notify/index.js'
import { untilEmpty } from '../../../operate/index.js'
import { itemKind, type StoreContract } from '../../../store/internal.js'
import { type DrainResult, type Outage, Worker } from '../../../task/index.js'
import { fanOut, logTo, redact, type Sink, type WorkEvent } from '../../../telemetry/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, errorText, UsageError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import type { Console } from '../../terminal/console.js'
import { consoleLogger } from '../../terminal/console-logger.js'
import { writeOne } from '../../terminal/output.js'
import { type Signals, signalsOf } from '../../terminal/signals.js'
import { FewDeaths } from '../pipeline/few-deaths.js'
import { type MetricsOptions, openMetrics, withMetricsOptions } from '../shared/metrics-options.js'
import { openStore, storeUrl } from '../shared/open-store.js'
import {
  type CommonOptions,
  collect,
  duration,
  namedNumbers,
  nonEmpty,
  wholeNumber,
  withCommonOptions,
} from '../shared/options.js'
import { type RetentionFlags, retentionOf, withRetentionOptions } from '../shared/retention.js'
import { waitingTexts } from '../task/waiting-text.js'
import { addWorkerList } from './list.js'
import { loadWork, type Work, type WorkChoice } from './load-work.js'

interface WorkerCommandOptions extends CommonOptions, MetricsOptions, RetentionFlags, WorkChoice {
  readonly concurrency: number
  readonly reserve?: Readonly<Record<string, number>>
  readonly category?: readonly string[]
  readonly lease?: number
  readonly grace?: number
  readonly release?: string
  readonly untilEmpty?: boolean
  readonly drain?: boolean
  readonly deadline?: number
  readonly max?: number
  readonly verbose?: boolean
}

/** A worker pushes its metrics this often, and once more when it stops. */
const PUSH_INTERVAL_MS = 15_000

/** Why a drain has ended. */
const DRAINED: Readonly<Record<DrainResult['ended'], string>> = {
  empty: 'Nothing is due any more.',
  deadline: 'The deadline has come.',
  max: 'It has claimed as many tasks as --max allows.',
  stopped: 'The worker has stopped.',
}

/** Adds `redrive worker`. */
export function addWorker(program: Command, context: CommandContext): void {
  const worker = program
    .command('worker')
    .enablePositionalOptions()
    .description('Run tasks and items of pipelines with the code of a module')
    .argument('<file>', 'Module that exports the results of defineTask() or pipeline()')
    .option('--concurrency <n>', 'Maximum number of tasks at once', wholeNumber(1, 10_000), 10)
    .option(
      '--reserve <kind=n>',
      'Slots that only tasks of this kind may use; may be repeated',
      namedNumbers('kind', 'send-email=2'),
    )
    .option('--kind <kind>', 'Only tasks of this kind; may be repeated', collect)
    .option('--pipeline <name>', 'Only items of this pipeline; may be repeated', collect)
    .option('--category <category>', 'Only tasks in this category, or items of this stage; may be repeated', collect)
    .option(
      '--lease <duration>',
      'Time after its last heartbeat until others take its tasks over (default: 30s)',
      duration(1),
    )
    .option('--grace <duration>', 'Time that running tasks have to end when it stops (default: 10s)', duration(0))
    .option('--release <version>', 'Version of your application, for the record of each attempt', nonEmpty)
    .option('--until-empty', 'Stop when no task is waiting or running')
    .addOption(new Option('--drain', 'Run what is due, then stop').conflicts('untilEmpty'))
    .option('--deadline <duration>', 'With --drain: stop claiming after this time', duration(1))
    .option('--max <n>', 'With --drain: maximum number of tasks to claim', wholeNumber(1, 1_000_000_000))
    .option('--verbose', 'Log every attempt, not only dead letters')
    .action(async (file: string, options: WorkerCommandOptions) => context.end(await runWorker(context, file, options)))
  addWorkerList(worker, context)
  withRetentionOptions(worker, ' (default: never)')
  withCommonOptions(withMetricsOptions(worker)).addHelpText(
    'after',
    `
It says when it starts and stops, and when tasks become dead letters: the first
few of each kind and code one by one, the others in a line every ten seconds.
With --verbose, it logs every attempt. SIGINT and SIGTERM stop it: running tasks
get the grace period to end, and the rest is handed back uncounted. A second
signal ends it at once, with exit code 1.

With --until-empty, it exits with 3 if tasks became dead letters. It waits for
delayed tasks and paused lanes too, and says so.

With --drain, it runs what is due, and retries that fall due meanwhile: for the
cron of another system. It leaves work that is delayed, paused or held by a
limit to the next drain. After --deadline, running tasks get the grace period,
and the rest is handed back. It exits with 3 if tasks became dead letters.

With --metrics-port, Prometheus can scrape the metrics of its tasks and of the
whole store. With --push, it pushes them to a Pushgateway: for a worker that
ends, such as one with --until-empty. If several push at the same time, give
each a --push-instance, since the last push wins.

Schedules that the module exports are declared to the store. Every worker fires
the schedules of its store, whoever has declared them.

Stages of pipelines and tasks that are called together have a concurrency of
their own, in the code. A worker works on the items of all runs, and reads no
sources.

Ended work is tasks that succeeded, were skipped or were cancelled, with their
history, idempotency keys whose work is done, and audit records. The id of a
deleted task is free again. --keep-count counts the tasks of all kinds together,
without items of runs.

With 'notify' in the configuration of the project, it sends messages to Slack or
to a webhook when work fails in a new way or waits for too long, a failure
budget has stopped a kind, or an operation has ended.

The default release is the environment variable REDRIVE_RELEASE, or the version
in the package.json of the module. 'redrive worker ls' lists live workers with
their releases.

Examples:
  redrive worker ./tasks.js --keep 30d
  redrive worker ./tasks.js --kind send-email --concurrency 50
  redrive worker ./tasks.js --concurrency 20 --reserve send-email=2
  redrive worker ./tasks.js --metrics-port 9464
  redrive worker ./enrich.js --pipeline enrich
  redrive worker ./tasks.js --until-empty --output json
  redrive worker ./tasks.js --drain --deadline 50s --max 1000`,
  )
}

async function runWorker(context: CommandContext, file: string, options: WorkerCommandOptions): Promise<ExitCode> {
  const { environment, console } = context
  checkDrain(options)
  const work = await loadWork(file, environment, options)
  const store = await openStore(options, environment, { mayCreate: true })
  const tally = new Tally()
  const logger = consoleLogger(console, { from: options.verbose ? 'debug' : 'error' })
  const { concurrency, category: categories, lease, grace } = options
  const release = options.release ?? releaseOf(resolve(environment.cwd, file), environment.env)
  const metrics = await openMetrics(options, context, 'redrive-worker', registry => metricsOf(store, registry)).catch(
    error => store.close().then(() => Promise.reject(error)),
  )
  const deaths = new FewDeaths(logTo(logger), text => logger.error({ at: new Date().toISOString() }, text))
  const log = options.verbose ? logTo(logger) : deaths.sink
  const sink = fanOut(log, event => tally.add(event), ...(metrics === undefined ? [] : [metrics.sink]))
  const onOutage = (outage: Outage) =>
    console.say(outage.isOver ? 'The store answers again.' : `${errorText(outage.failure)} The worker keeps trying.`)
  const worker = new Worker(store, {
    ...work,
    concurrency,
    reserve: options.reserve,
    categories,
    release,
    lease,
    grace,
    retention: retentionOf(options),
    sink,
    onOutage,
  })
  let notifier: Notifier | undefined
  const signals = signalsOf(environment)
  const pushing = setInterval(() => metrics?.push(), PUSH_INTERVAL_MS).unref()
  let isCutShort = false
  let drained: DrainResult | undefined
  try {
    // It checks its options, whatever the configuration holds.
    if (environment.notify !== undefined)
      notifier = notify(store, { ...(environment.notify as NotifyOptions), sink: logTo(logger) })
    if (!options.drain) await worker.start()
    await notifier?.start()
    const where = redact(storeUrl(options, environment))
    console.say(`Worker ${worker.name} ${workText(work, where, concurrency)}. Ctrl-C stops it.`)
    const draining = options.drain ? worker.drain({ deadline: options.deadline, max: options.max }) : undefined
    console.say(await stopReason({ worker, draining }, store, work, options, { signals, console }))
    isCutShort = (await stopped(worker, signals)) === 'cut short'
    if (!isCutShort) drained = await draining
  } finally {
    signals.close()
    clearInterval(pushing)
    deaths.close()
    await notifier?.stop()
    await metrics?.push()
    await metrics?.close()
    // A worker that was cut short still uses the store.
    if (!isCutShort) await store.close()
  }
  if (isCutShort) {
    console.say('Ended at once. Other workers will take over its running tasks when its lease has expired.')
    return ExitCode.error
  }
  return printEnd(console, options, tally, drained?.ended)
}

function checkDrain({ drain, deadline, max }: WorkerCommandOptions): void {
  if (!drain && (deadline ?? max) !== undefined)
    throw new UsageError('--deadline and --max are for a drain. Add --drain.')
}

function printEnd(
  console: Console,
  { output, untilEmpty, drain = untilEmpty }: WorkerCommandOptions,
  tally: Tally,
  ended: DrainResult['ended'] | undefined,
): ExitCode {
  const counts = tally.counts()
  if (output !== 'table') writeOne(console, output, { ...counts, ended }, () => '')
  console.say(`Stopped: ${tally.text()}.`)
  if (counts.dead > 0) console.say(`To see the dead letters, run: ${suggest('dlq ls')}`)
  return drain && counts.dead > 0 ? ExitCode.partly : ExitCode.done
}

async function metricsOf(store: StoreContract, registry: MetricsRegistry): Promise<Sink> {
  await storeMetrics(store, { registry })
  return workMetrics({ registry })
}

/** Waits for a reason to stop. Rejects if the worker fails. */
async function stopReason(
  { worker, draining }: { readonly worker: Worker; readonly draining: Promise<DrainResult> | undefined },
  store: StoreContract,
  { tasks, pipelines }: Work,
  options: WorkerCommandOptions,
  { signals, console }: { readonly signals: Signals; readonly console: Console },
): Promise<string> {
  const signal = signals.next().then(name => `${name}: stopping. Send it again to end at once.`)
  const failure = worker.stopped.then(() => 'The worker has stopped.')
  if (draining !== undefined) return Promise.race([signal, draining.then(({ ended }) => DRAINED[ended])])
  if (!options.untilEmpty) return Promise.race([signal, failure])
  const isOver = new AbortController()
  const kinds = [...tasks.map(({ kind }) => kind), ...pipelines.map(({ name }) => itemKind(name))]
  const scope = { kinds, categories: options.category }
  const onIdle = async () => {
    // A store that is away is reported by the worker.
    for (const text of await waitingTexts(store, scope).catch(() => [])) console.say(text)
  }
  const empty = untilEmpty(store, scope, { signal: isOver.signal, onIdle }).then(
    () => 'No task is waiting or running any more.',
  )
  try {
    return await Promise.race([signal, empty, failure])
  } finally {
    isOver.abort()
  }
}

async function stopped(worker: Worker, signals: Signals): Promise<'stopped' | 'cut short'> {
  return Promise.race([worker.stop().then(() => 'stopped' as const), signals.next().then(() => 'cut short' as const)])
}

/** Says what a worker does, after its name. */
function workText({ tasks, pipelines, schedules }: Work, where: string, concurrency: number): string {
  const kinds = tasks.map(({ kind }) => kind).join(', ')
  const names = pipelines.map(({ name }) => name).join(', ')
  const all = [
    ...(kinds === '' ? [] : [`runs ${kinds} of ${where}, up to ${concurrency} at once`]),
    ...(names === '' ? [] : [`works on items of ${names}${kinds === '' ? ` of ${where}` : ''}`]),
  ]
  if (schedules.length > 0) all.push(`declares ${schedules.map(({ name }) => name).join(', ')}`)
  return all.join(', and ')
}

/** Counts the outcomes of a worker's attempts. */
class Tally {
  #succeeded = 0
  #retries = 0
  #deferrals = 0
  #dead = 0

  add({ type }: WorkEvent): void {
    if (type === 'attempt_succeeded') this.#succeeded++
    if (type === 'retry_scheduled') this.#retries++
    if (type === 'deferred') this.#deferrals++
    if (type === 'gave_up') this.#dead++
  }

  counts() {
    return { succeeded: this.#succeeded, retries: this.#retries, deferrals: this.#deferrals, dead: this.#dead }
  }

  text(): string {
    const { succeeded, retries, deferrals, dead } = this.counts()
    const deferred = deferrals === 0 ? '' : `, ${deferrals} deferred`
    return `${succeeded} succeeded, ${retries} ${retries === 1 ? 'retry' : 'retries'} scheduled${deferred}, ${dead} dead`
  }
}
