import type { CommandContext } from '../command.js'
import type { Console } from './console.js'
import { signalsOf } from './signals.js'

/** Stops a long operation, and reports how far it is. */
export interface Progress {
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
  /** Prints a line, but at most one per second. */
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

type Context = Pick<CommandContext, 'console' | 'environment'>

/** Prints lines, but at most one per second. */
export function reporter(console: Console): Progress['report'] {
  let reportedAt = performance.now()
  return line => {
    if (performance.now() - reportedAt < REPORT_EVERY_MS) return
    reportedAt = performance.now()
    console.say(line())
  }
}

/** Runs an operation that reports its progress, and that a signal stops after the current unit of work. */
export async function withProgress<T>(
  { console, environment }: Context,
  unit: string,
  operation: (progress: Progress) => Promise<T>,
): Promise<T> {
  const signals = signalsOf(environment)
  const stop = new AbortController()
  void signals.next().then(name => {
    console.say(`${name}: stopping after this ${unit}.`)
    stop.abort()
  })
  try {
    return await operation({ signal: stop.signal, report: reporter(console) })
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
