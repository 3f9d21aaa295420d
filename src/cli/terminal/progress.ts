import type { CommandContext } from '../command.js'
import { signalsOf } from './signals.js'

/** Stops a long operation, and reports how far it is. */
export interface Progress {
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
  /** Prints a line now and then. */
  readonly report: (line: () => string) => void
}

/** How the progress of an operation that counts is worded: `3 of 10 requeued so far.` */
export interface Counting {
  readonly total: number
  readonly verb: string
  /** The unit of work that is finished before a signal stops the operation. */
  readonly unit: string
  /** Printed after the count if the operation fails. */
  readonly rest: string
}

const REPORT_EVERY_MS = 1000
/** Logs get fewer and fewer lines of something that takes long. */
const MAX_EVERY_MS = 300_000

type Context = Pick<CommandContext, 'console' | 'environment'>

/** The parts of a context that lines are printed with. */
interface ReportContext {
  readonly console: Pick<CommandContext['console'], 'say'>
  readonly environment: { readonly isTTY: Pick<CommandContext['environment']['isTTY'], 'stderr'> }
}

/** Prints a line, but at most one per second. Without a terminal, each pause is twice as long as the one before. */
export function reporter({ console, environment }: ReportContext): Progress['report'] {
  let reportedAt = performance.now()
  let everyMs = REPORT_EVERY_MS
  let last = ''
  return line => {
    if (performance.now() - reportedAt < everyMs) return
    const text = line()
    if (text === last) return
    reportedAt = performance.now()
    if (!environment.isTTY.stderr) everyMs = Math.min(2 * everyMs, MAX_EVERY_MS)
    last = text
    console.say(text)
  }
}

/** Runs an operation that reports its progress, and that a signal stops after the current unit of work. */
export async function withProgress<T>(
  context: Context,
  unit: string,
  operation: (progress: Progress) => Promise<T>,
): Promise<T> {
  const { console, environment } = context
  const signals = signalsOf(environment)
  const stop = new AbortController()
  void signals.next().then(name => {
    console.say(`${name}: stopping after this ${unit}.`)
    stop.abort()
  })
  try {
    return await operation({ signal: stop.signal, report: reporter(context) })
  } finally {
    signals.close()
  }
}

/** Like `withProgress`, for an operation that counts. If it fails, the count so far is printed. */
export function withCount<T>(
  context: Context,
  { total, verb, unit, rest }: Counting,
  operation: (options: { signal: AbortSignal; onProgress: (count: number) => void }) => Promise<T>,
): Promise<T> {
  return withProgress(context, unit, async ({ signal, report }) => {
    let done = 0
    const onProgress = (count: number) => {
      done = count
      if (done < total) report(() => `${done} of ${total} ${verb} so far.`)
    }
    try {
      return await operation({ signal, onProgress })
    } catch (error) {
      context.console.say(`${done} ${verb} before it failed. ${rest}`)
      throw error
    }
  })
}
