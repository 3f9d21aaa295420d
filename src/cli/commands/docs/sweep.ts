import type { Command } from 'commander'
import type { Bus } from '../../../bus/index.js'
import { type DocumentSource, type SweepReport, sweeper } from '../../../document/index.js'
import { documentMetrics } from '../../../metrics/index.js'
import { presets } from '../../../presets/index.js'
import { fanOut, logTo, type Sink, type WorkEvent } from '../../../telemetry/index.js'
import type { CollectionReport } from '../../../telemetry/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, errorText, UsageError } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import { consoleLogger } from '../../terminal/console-logger.js'
import { type OutputFormat, writeList } from '../../terminal/output.js'
import { signalsOf } from '../../terminal/signals.js'
import { NAME_WIDTH, oneLine, table } from '../../terminal/table.js'
import { withBusOutputOptions } from '../shared/bus-options.js'
import { type MetricsOptions, openMetrics, withMetricsOptions } from '../shared/metrics-options.js'
import { type BusOptions, openBus } from '../shared/open-bus.js'
import { openStore } from '../shared/open-store.js'
import { duration, nonEmpty } from '../shared/options.js'
import { type DocumentOptions, openSource, settingsOf, withDocumentOptions } from './options.js'

interface SweepOptions extends DocumentOptions, BusOptions, MetricsOptions {
  readonly once?: boolean
  readonly interval?: number
  readonly dryRun?: boolean
  readonly confirm?: boolean
  readonly store?: string
  readonly verbose?: boolean
  readonly output: OutputFormat
}

/** Adds `redrive sweep`. */
export function addSweep(program: Command, context: CommandContext): void {
  const sweep = program
    .command('sweep')
    .description('Requeue stuck documents of your own collections, and mark exhausted ones as failed')
    .option('--once', 'Sweep once and exit')
    .option('--interval <duration>', 'Time between two sweeps (default: 15m)', duration(1))
    .option('--dry-run', 'Show what a sweep would do, once, and do nothing; needs no bus, and creates no store')
    .option('--confirm', 'Send all stuck documents, however many')
    .option('--store <url>', 'Store for dead letters and lanes (or REDRIVE_STORE; default: none)', nonEmpty)
    .option('--verbose', 'Log every document, not only the result of each sweep')
    .action(async (options: SweepOptions) => context.end(await run(context, options)))
  withBusOutputOptions(withDocumentOptions(withMetricsOptions(sweep))).addHelpText(
    'after',
    `
Without --config it sweeps the collections of the preset 'documents', with the
environment variables RETRY_JOB_*; a flag overrides its variable. With --once it
exits with 1 if the source, the bus or the store cannot be reached, and with 3
if a collection failed or events could not be published.

Examples:
  redrive sweep --source mongodb://localhost/app --bus amqp://localhost
  redrive sweep --source postgres://localhost/app --dry-run
  redrive sweep --config ./collections.js --once --push http://localhost:9091`,
  )
}

async function run(context: CommandContext, options: SweepOptions): Promise<ExitCode> {
  const { environment, console } = context
  const settings = await settingsOf(options, environment)
  const hasStore = Boolean(options.store ?? environment.env.REDRIVE_STORE)
  const store = hasStore ? await openStore(options, environment, { mayCreate: !options.dryRun }) : undefined
  const opened: { source?: DocumentSource; bus?: Bus } = {}
  const collections = settings.collections.map(({ name }) => name)
  const isPreset = options.config === undefined && environment.settings === undefined
  const names = isPreset ? presets.documents.documentMetricNames : undefined
  const metrics = await openMetrics(options, context, 'redrive-sweeper', registry =>
    documentMetrics({ registry, collections, names }),
  )
  const isOnce = options.once || options.dryRun
  const log = logTo(consoleLogger(console, { from: options.verbose ? 'debug' : 'info' }))
  const sinks: Sink[] = [
    // The command itself says why it ends.
    event => (endsCommand(event, isOnce) ? undefined : log(event)),
    ...(metrics === undefined ? [] : [metrics.sink]),
  ]
  // A loop pushes after each sweep; a single sweep is pushed below, before the process ends.
  if (!isOnce) sinks.push(event => (event.type === 'sweep_ended' ? void metrics?.push() : undefined))
  const wrong = wrongUsage()
  const sweeps = sweeper({
    ...settings,
    ...(options.interval !== undefined && { interval: options.interval }),
    ...(store !== undefined && { store }),
    sink: fanOut(...sinks),
    source: async () => {
      opened.source = await openSource(options, environment).catch(wrong.check)
      return opened.source
    },
    bus: async () => {
      opened.bus = await openBus(options, environment).catch(wrong.check)
      return opened.bus
    },
  })
  const signals = signalsOf(environment)
  try {
    if (isOnce) {
      const report = await sweeps.sweep({ dryRun: options.dryRun, confirm: options.confirm })
      await metrics?.push()
      return tell(console, options.output, report)
    }
    sweeps.start()
    console.say(`Sweeping ${settings.collections.map(({ name }) => name).join(', ')} until Ctrl-C.`)
    const signal = await Promise.race([signals.next(), wrong.usage])
    console.say(`${signal}: stopping after the page that is being swept.`)
    return ExitCode.done
  } finally {
    await sweeps.stop()
    signals.close()
    await metrics?.close()
    await opened.source?.close()
    await opened.bus?.close()
    await store?.close()
  }
}

/** Whether the command ends with the failure of this event: a loop ends only if it is used wrongly. */
function endsCommand(event: WorkEvent, isOnce: boolean | undefined): boolean {
  if (event.type !== 'sweep_ended' || event.failure === undefined) return false
  return isOnce || event.failure instanceof UsageError
}

/** Asking again does not help where an address is missing or wrong: unlike a database that is down, it ends the command. */
function wrongUsage() {
  let reject = (_: UsageError) => {}
  const usage = new Promise<never>((_, rejected) => {
    reject = rejected
  })
  usage.catch(() => {})
  const check = (error: unknown): never => {
    if (error instanceof UsageError) reject(error)
    throw error
  }
  return { usage, check }
}

function tell(console: Console, output: OutputFormat, { collections, isDryRun, failure }: SweepReport): ExitCode {
  if (failure instanceof UsageError) throw failure
  const views = collections.map(viewOf)
  if (failure === undefined || views.length > 0) writeList(console, output, views, () => reportTable(views, console))
  if (failure !== undefined) {
    console.say(`redrive: ${errorText(failure)}`)
    return ExitCode.error
  }
  if (isDryRun) console.say('This was a dry run: nothing was changed.')
  const held = collections.filter(({ tooMany }) => tooMany?.isHeldBack)
  for (const { collection, stuck, tooMany } of held)
    console.say(
      `${stuck} of ${tooMany?.total} in '${collection}' are stuck: a first part was sent. For all, --confirm.`,
    )
  const isPartly = collections.some(({ failure: error, publishErrors }) => error !== undefined || publishErrors > 0)
  return isPartly ? ExitCode.partly : ExitCode.done
}

function viewOf({ failure, publishError, documentError, ...report }: CollectionReport) {
  return {
    ...report,
    ...(failure !== undefined && { failure: errorText(failure) }),
    ...(publishError !== undefined && { publishError: errorText(publishError) }),
    ...(documentError !== undefined && { documentError: errorText(documentError) }),
  }
}

/** Says in short what was not done: the log says why. */
function noteOf({ failure, postponed, publishErrors, documentErrors, unstarted, tooMany }: CollectionReport): string {
  const counts = { 'not published': publishErrors, unusable: documentErrors, 'never started': unstarted }
  const notes = Object.entries(counts).filter(([, count]) => count > 0)
  return [
    ...(failure === undefined ? [] : ['failed']),
    ...(postponed === undefined ? [] : [postponed]),
    ...notes.map(([note, count]) => `${count} ${note}`),
    ...(tooMany === undefined ? [] : ['too many']),
  ].join(', ')
}

function reportTable(reports: readonly ReturnType<typeof viewOf>[], console: Console): string {
  const titles = ['COLLECTION', 'STUCK', 'REQUEUED', 'IN BACKOFF', 'MARKED', 'FAILED']
  const columns = titles.map((title, index) => (index === 0 ? { title, minWidth: NAME_WIDTH } : { title }))
  const rows = reports.map(report => {
    const { collection, stuck, requeued, skipped, exhausted, failed } = report
    const note = noteOf(report)
    return {
      cells: [collection, ...[stuck, requeued, skipped, exhausted, failed].map(String)],
      details: note === '' ? [] : [oneLine(note, { width: console.width, indent: '  ' })],
    }
  })
  return table(columns, rows, console)
}
