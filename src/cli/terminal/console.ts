import pc from 'picocolors'
import type { Environment } from '../environment.js'
import { wrap } from './text-width.js'
import { visible } from './visible.js'

export type Paint = ReturnType<typeof pc.createColors>

/** Where the command writes: data to stdout, words to stderr, each in colour where that can be seen. */
export interface Console {
  /** Data, as it is. */
  data(text: string): void
  /** Words, with what could drive a terminal made visible. */
  say(text: string): void
  /** Words that were made safe already, and may be in colour. */
  sayRaw(text: string): void
  readonly paint: Paint
  readonly paintWords: Paint
  /** How wide data may be: the terminal's width, and without one as wide as it is. */
  readonly width: number
  /** The same for words. */
  readonly wordsWidth: number
}

const DEFAULT_WIDTH = 80
/** On a narrower terminal, lines run over. */
const MIN_WIDTH = 40

/** The console of an environment. */
export function consoleOf({ stdout, stderr, env, isTTY, columns }: Environment): Console {
  // Some terminals, such as a new pty, say that they have no columns at all.
  const terminalWidth = Math.max(MIN_WIDTH, columns || DEFAULT_WIDTH)
  const wordsWidth = isTTY.stderr ? terminalWidth : Infinity
  const hasColours = !env.NO_COLOR && env.TERM !== 'dumb'
  const wrapLines = (text: string) =>
    text
      .split('\n')
      .flatMap(line => wrap(visible(line), wordsWidth))
      .join('\n')
  return {
    data: text => stdout.write(`${text}\n`),
    say: text => stderr.write(`${wrapLines(text)}\n`),
    sayRaw: text => stderr.write(`${text}\n`),
    paint: pc.createColors(hasColours && isTTY.stdout),
    paintWords: pc.createColors(hasColours && isTTY.stderr),
    width: isTTY.stdout ? terminalWidth : Infinity,
    wordsWidth,
  }
}
