import type { Environment } from '../environment.js'

/** The signals that the process receives, one after the other. */
export interface Signals {
  /** The next signal, which may have arrived before this call. */
  next(): Promise<string>
  close(): void
}

/** Under npm and tsx, one Ctrl-C arrives twice: from the terminal, and forwarded. Nobody types that fast. */
const SAME_SIGNAL_MS = 100

/** Listens for SIGINT and SIGTERM until it is closed. */
export function signalsOf({ onSignal }: Pick<Environment, 'onSignal'>): Signals {
  const arrived: string[] = []
  const asked: ((signal: string) => void)[] = []
  let lastAt = Number.NEGATIVE_INFINITY
  const close = onSignal(signal => {
    const isSame = performance.now() - lastAt < SAME_SIGNAL_MS
    lastAt = performance.now()
    if (isSame) return
    const resolve = asked.shift()
    if (resolve === undefined) arrived.push(signal)
    else resolve(signal)
  })
  return {
    next: () =>
      new Promise(resolve => {
        const signal = arrived.shift()
        if (signal === undefined) asked.push(resolve)
        else resolve(signal)
      }),
    close,
  }
}
