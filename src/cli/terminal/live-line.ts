import type { Environment } from '../environment.js'
import type { Console } from './console.js'

/** A line on stderr that is written over by the next one. Without a terminal, it is printed now and then instead. */
export interface LiveLine {
  /** Whether it is written over. */
  readonly isLive: boolean
  show(text: string): void
  /** Prints a message above the line. */
  say(text: string): void
  /** Removes the line. */
  end(): void
}

/** Logs get a line this often. */
const LOG_EVERY_MS = 60_000

/** The live line of a console. */
export function liveLine(console: Console, { stderr, isTTY, env }: Environment): LiveLine {
  const isLive = isTTY.stderr && env.TERM !== 'dumb'
  let shown = ''
  let loggedAt = performance.now()
  const clear = () => {
    if (shown !== '') stderr.write('\r\u001b[2K')
  }
  return {
    isLive,
    show(text) {
      if (isLive) {
        clear()
        shown = text
        stderr.write(text)
      } else if (performance.now() - loggedAt >= LOG_EVERY_MS) {
        loggedAt = performance.now()
        console.sayRaw(text)
      }
    },
    say(text) {
      clear()
      console.say(text)
      if (shown !== '') stderr.write(shown)
    },
    end() {
      clear()
      shown = ''
    },
  }
}
