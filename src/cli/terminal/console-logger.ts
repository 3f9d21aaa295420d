import type { Logger } from '../../telemetry/index.js'
import type { Console, Paint } from './console.js'
import { wrap } from './text-width.js'
import { shortened, visible } from './visible.js'

type Level = keyof Logger

const LEVELS: readonly Level[] = ['debug', 'info', 'warn', 'error']
const LEVEL_WIDTH = 5

/** Options for the logger. */
export interface ConsoleLoggerOptions {
  /** The lowest level that is printed. */
  readonly from: Level
}

/** A logger for people, on stderr: time, level, message and, if the line is about one, the id of the work. */
export function consoleLogger(console: Console, { from }: ConsoleLoggerOptions): Logger {
  const { messagePaint: paint, messageWidth } = console
  const write = (level: Level) => (fields: object, message: string) => {
    if (LEVELS.indexOf(level) < LEVELS.indexOf(from)) return
    const at = read(fields, 'at')
    // On a terminal, the day goes without saying.
    const time = messageWidth === Infinity ? at : at.slice('2026-07-30T'.length)
    const room = messageWidth - time.length - LEVEL_WIDTH - 2
    const id = read(fields, 'workId')
    const text = wrap(`${visible(message)}${id === '' ? '' : ` [${shortened(id)}]`}`, room)
    const indent = ' '.repeat(time.length + LEVEL_WIDTH + 2)
    console.sayRaw(`${paint.dim(time)} ${painted(level, paint)} ${text.join(`\n${indent}`)}`)
  }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}

function painted(level: Level, paint: Paint): string {
  const text = level.padEnd(LEVEL_WIDTH)
  switch (level) {
    case 'debug':
      return paint.dim(text)
    case 'info':
      return paint.cyan(text)
    case 'warn':
      return paint.yellow(text)
    case 'error':
      return paint.red(text)
  }
}

function read(fields: object, name: string): string {
  const value: unknown = Reflect.get(fields, name)
  return typeof value === 'string' ? value : ''
}
