import type { TrialEstimate } from '../../../operate/internal.js'
import type { RunHandle, RunResult } from '../../../pipeline/index.js'
import { formatDuration } from '../../../policy/index.js'
import type { RunStatus, StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { percent } from '../../terminal/chart.js'
import { type LiveLine, liveLine } from '../../terminal/live-line.js'
import { writeResult } from '../../terminal/output.js'
import { signalsOf } from '../../terminal/signals.js'
import type { CommonOptions } from '../shared/options.js'
import type { AnyPipeline } from './load-pipeline.js'
import type { RunNotes } from './run-notes.js'
import { type RunOutput, runOutput } from './run-output.js'
import { progressText } from './run-progress.js'
import { countsText } from './run-text.js'
import { isTrialOver, judgeTrial, type Trial } from './trial.js'

/** A run that this process works on. */
interface Followed {
  readonly store: StoreContract
  readonly pipeline: AnyPipeline
  readonly handle: RunHandle
  readonly notes: RunNotes
  readonly trial: Trial | undefined
  /** The number of all its items, once it is known. */
  readonly expected: number | undefined | Promise<number | undefined>
  /** The module that it was started with. */
  readonly file: string
  readonly options: CommonOptions & { readonly yes?: boolean; readonly out?: string }
}

/** Why this process does not work on it any more. */
type Leaving = 'ended' | 'signal' | 'refused' | 'unasked'

/** Shows the progress of a run until it ends or a signal stops it; then writes its results, and says how it ended. */
export async function followRun(
  context: CommandContext,
  run: Followed,
): Promise<{ readonly code: ExitCode; readonly isCutShort: boolean }> {
  const { console, environment } = context
  const { handle, store, notes } = run
  const line = liveLine(console, environment)
  const signals = signalsOf(environment)
  let leaving: Leaving = 'ended'
  const cutShort = signals.next().then(async name => {
    line.say(`${name}: stopping. Send it again to end at once.`)
    leaving = 'signal'
    void handle.stop()
    await signals.next()
    return 'cut short' as const
  })
  const working = async () => {
    const output = await runOutput(store, handle.id, notes)
    const trial = await showProgress(context, run, line, output)
    leaving = trial.leaving ?? leaving
    const result = await handle.result
    const written = await output.finish(isEnded(result.status))
    return { result, written, estimate: trial.estimate }
  }
  try {
    const end = await Promise.race([working(), cutShort])
    line.end()
    if (end === 'cut short') {
      console.say('Ended at once. Other processes take over the running items when their lease expires.')
      return { code: ExitCode.error, isCutShort: true }
    }
    report(context, run, end.result, { leaving, ...end })
    return { code: codeOf(end.result.status, leaving), isCutShort: false }
  } catch (error) {
    line.end()
    await handle.stop().catch(() => {})
    throw error
  } finally {
    signals.close()
  }
}

async function showProgress(
  context: CommandContext,
  run: Followed,
  line: LiveLine,
  output: RunOutput,
): Promise<{ readonly leaving?: Leaving; readonly estimate?: TrialEstimate }> {
  const { handle, trial, store, pipeline, options } = run
  let expected: number | undefined
  void Promise.resolve(run.expected).then(count => {
    expected = count
  })
  let isJudged = trial === undefined
  let answer: Awaited<ReturnType<typeof judgeTrial>> | undefined
  for await (const snapshot of handle.progress()) {
    line.show(
      progressText(snapshot, isJudged ? expected : trial?.size, {
        isLive: line.isLive,
        messageWidth: context.console.messageWidth,
      }),
    )
    await output.flush()
    if (isJudged || trial === undefined || !isTrialOver(trial, snapshot)) continue
    isJudged = true
    line.end()
    answer = await judgeTrial(context, store, handle.id, trial, { pipeline, yes: options.yes })
    if (answer.answer === 'yes') trial.goOn()
    else await handle.stop()
  }
  if (answer === undefined) return {}
  const { estimate } = answer
  if (answer.answer === 'yes') return { estimate }
  return { estimate, leaving: answer.answer === 'no' ? 'refused' : 'unasked' }
}

function report(
  { console }: CommandContext,
  { handle, file, options }: Followed,
  result: RunResult,
  {
    leaving,
    written,
    estimate,
  }: { leaving: Leaving; written: string | undefined; estimate?: TrialEstimate | undefined },
): void {
  const { status, counts, total, duplicates, successRate, durationMs, error, stop } = result
  writeResult(console, options.output, {
    id: handle.id,
    status,
    total,
    counts,
    duplicates,
    successRate,
    durationMs,
    stop: stop ?? null,
    estimate: estimate ?? null,
  })
  const hasEnded = counts.succeeded + counts.skipped + counts.dead > 0
  const success = hasEnded ? ` (${percent(successRate)} success)` : ''
  const figures = `${countsText(counts)}${success} in ${formatDuration(durationMs)}`
  const resume = suggest('pipeline resume', { '--out': options.out }, handle.id, file)
  if (leaving === 'signal' && !isEnded(status)) {
    console.say(`Stopped: ${figures}. Nothing is lost. To go on: ${resume}`)
  } else if (leaving === 'refused' || leaving === 'unasked') {
    const why =
      leaving === 'refused' ? 'Not confirmed' : 'Without a terminal to confirm on, pass --yes to go on at once'
    const cancel = suggest('pipeline cancel', {}, handle.id)
    console.say(`${why}. The trial is kept. To go on: ${resume}`)
    console.say(`To drop it: ${cancel}`)
  } else if (error !== undefined && !isEnded(status)) {
    console.say(unreadText(result) ?? error.message)
    console.say(`So far: ${figures}. To go on: ${resume}`)
  } else {
    console.say(`Run ${handle.id} ${endText(status)}: ${figures}.`)
  }
  if (written !== undefined) console.say(written)
  if (counts.dead > 0) console.say(`To see why items died: ${suggest('pipeline report', {}, handle.id)}`)
}

/** A source of which nothing could be read, perhaps because it could not be opened. */
function unreadText({ run, status, position, sourceError }: RunResult): string | undefined {
  if (status !== 'interrupted' || position > 0 || sourceError === undefined) return undefined
  return `The source of the run '${run}' could not be read: ${sourceError.replace(/\.$/, '')}.`
}

function endText(status: RunStatus): string {
  return status === 'partial_success' ? 'succeeded in part' : status
}

function codeOf(status: RunStatus, leaving: Leaving): ExitCode {
  if (leaving === 'refused' || leaving === 'unasked') return ExitCode.partly
  if (leaving === 'signal' && !isEnded(status)) return ExitCode.partly
  switch (status) {
    case 'completed':
      return ExitCode.done
    case 'partial_success':
      return ExitCode.partly
    default:
      return ExitCode.error
  }
}

function isEnded(status: RunStatus): boolean {
  return status === 'completed' || status === 'partial_success' || status === 'failed' || status === 'cancelled'
}
