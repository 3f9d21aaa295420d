// The only file that knows the parser.
import { Cron } from 'croner'
import { OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'

/**
 * The wall-clock times of a cron expression, in a calendar without time zones: a wall-clock time is given as the
 * milliseconds at which a clock in UTC shows it.
 */
export interface WallTimes {
  /**
   * Whether it follows elapsed time, since its seconds, minutes or hours are not restricted: it runs in both passes of an
   * hour that is repeated, and not in one that is left out. Other expressions name fixed times, each of which runs once.
   */
  readonly isElapsed: boolean
  /** The first one after a wall-clock time; `undefined` if there is none in the next centuries. */
  next(after: number): number | undefined
  /** The last one before a wall-clock time. */
  previous(before: number): number | undefined
}

const SECOND = 1000

/** Five fields, or six, the first of which are seconds. Other parsers read `?`, `H`, `+` and years each in a way of its own. */
const FIELDS = /^[\d*,/A-Z#-]+( [\d*,/A-Z#-]+){4,5}$/i
const NICKNAME = /^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$/i
/** A part of a field that allows every value, or every nth. */
const UNRESTRICTED = /(^|,)(\*|0-59|0-23(?=$|[,/]))/

/** Parses a cron expression. Throws an `OptionError` that says what is wrong with it. */
export function parseCron(text: string): WallTimes {
  const expression = typeof text === 'string' ? text.trim().replace(/\s+/g, ' ') : ''
  if (!FIELDS.test(expression) && !NICKNAME.test(expression)) throw wrongCron(text, formOf(expression))
  const cron = parsed(expression, text)
  const times = {
    isElapsed: isElapsed(expression),
    next: (after: number) => cron.nextRun(new Date(after))?.getTime(),
    // It looks for whole seconds before the one that it is given.
    previous: (before: number) => cron.previousRuns(1, new Date(Math.ceil(before / SECOND) * SECOND))[0]?.getTime(),
  }
  if (times.next(Date.UTC(2000, 0)) === undefined) throw wrongCron(text, 'there is no such date, so it never occurs')
  return times
}

function parsed(expression: string, text: string): Cron {
  try {
    return new Cron(expression, { utcOffset: 0, mode: NICKNAME.test(expression) ? 'auto' : '5-or-6-parts' })
  } catch (error) {
    const problem = error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error)
    throw wrongCron(text, problem.replace(/\.$/, ''))
  }
}

function formOf(expression: string): string {
  if (expression === '') return 'it is empty'
  if (expression.includes('?')) return "write '*' in place of '?'"
  if (expression.startsWith('@')) return 'the names are @yearly, @monthly, @weekly, @daily and @hourly'
  const fields = expression.split(' ').length
  if (fields !== 5 && fields !== 6)
    return `it has ${fields} ${fields === 1 ? 'field' : 'fields'} in place of five, or six with seconds`
  return 'a field consists of numbers, names of months or days, and the characters * , - / L W #'
}

function wrongCron(text: unknown, problem: string): OptionError {
  const form = "'minute hour day month weekday', such as '30 2 * * *'"
  return new OptionError('cron', `The cron expression ${quoted(text)} is invalid: ${problem}. Its form is ${form}.`)
}

function isElapsed(expression: string): boolean {
  if (expression.startsWith('@')) return /^@hourly$/i.test(expression)
  return expression
    .split(' ')
    .slice(0, -3)
    .some(field => UNRESTRICTED.test(field))
}
