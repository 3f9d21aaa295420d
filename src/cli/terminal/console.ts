import pc from 'picocolors'
import type { Environment, Writer } from '../environment.js'
import { textWidth, wrap } from './text-width.js'
import { visible } from './visible.js'

export type Paint = ReturnType<typeof pc.createColors>

/** Where the command writes: data to stdout, messages to stderr, in colour if the stream is a terminal. */
export interface Console {
  /** Writes data to stdout as it is. */
  data(text: string): void
  /** Writes data to stdout, and waits while its reader is slower: so any amount needs little memory. */
  stream(text: string): Promise<void>
  /**
   * Writes a message to stderr. Control characters are made visible, line breaks too: a name must not forge a line. A command at
   * its end is never broken: whoever pastes two lines of it would run the second one.
   */
  say(text: string): void
  /** Writes a message that is safe already and may be coloured. */
  sayRaw(text: string): void
  readonly paint: Paint
  readonly messagePaint: Paint
  /** The width of stdout: `Infinity` if it is not a terminal. */
  readonly width: number
  /** The width of stderr. */
  readonly messageWidth: number
}

const DEFAULT_WIDTH = 80
/** On a narrower terminal, lines wrap. */
const MIN_WIDTH = 40

/** Writes a text, and waits while its reader is slower. */
export async function writeSlowly(writer: Writer, text: string): Promise<void> {
  const isTaken = writer.write(text) !== false
  if (!isTaken) await new Promise<void>(resolve => writer.once?.('drain', resolve) ?? resolve())
}

/** A command that a message ends with, as all of ours do. */
const COMMAND = /(?<=: )redrive [a-z].*/

function messageLines(text: string, width: number): string[] {
  const at = textWidth(text) <= width ? -1 : text.search(COMMAND)
  return at < 0 ? wrap(text, width) : [...wrap(text.slice(0, at - 1), width), `    ${text.slice(at)}`]
}

/** The console of an environment. */
export function consoleOf({ stdout, stderr, env, isTTY, columns }: Environment): Console {
  // Some terminals, such as a new pty, report 0 columns.
  const terminalWidth = Math.max(MIN_WIDTH, columns || DEFAULT_WIDTH)
  const messageWidth = isTTY.stderr ? terminalWidth : Infinity
  const hasColours = !env.NO_COLOR && env.TERM !== 'dumb'
  return {
    data: text => stdout.write(`${text}\n`),
    stream: text => writeSlowly(stdout, `${text}\n`),
    say: text => stderr.write(`${messageLines(visible(text), messageWidth).join('\n')}\n`),
    sayRaw: text => stderr.write(`${text}\n`),
    paint: pc.createColors(hasColours && isTTY.stdout),
    messagePaint: pc.createColors(hasColours && isTTY.stderr),
    width: isTTY.stdout ? terminalWidth : Infinity,
    messageWidth,
  }
}
