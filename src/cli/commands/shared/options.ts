import { type Command, InvalidArgumentError, Option } from 'commander'
import { formatDuration, parseDuration } from '../../../policy/index.js'
import { parseMoment } from '../../../time/index.js'
import { OUTPUT_FORMATS, type OutputFormat } from '../../terminal/output.js'
import { DEFAULT_STORE, type StoreOptions } from './open-store.js'
import type { PageOptions } from './print-list.js'
import { type Condition, condition } from './where.js'

/** The flags of every command. */
export interface CommonOptions extends StoreOptions {
  readonly output: OutputFormat
}

/** The flags of every list. */
export interface ListOptions extends CommonOptions, PageOptions, FilterOptions {}

/** The flags that filter tasks. */
export interface FilterOptions {
  readonly kind?: string
  readonly category?: string
  readonly key?: string
  readonly code?: string
  readonly group?: string
  readonly unique?: string
  readonly where?: readonly Condition[]
}

/** Adds the flag that names the store. */
export function withStoreOption(command: Command): Command {
  const what = `URL of the store (or REDRIVE_STORE; default: ${DEFAULT_STORE})`
  return command.addOption(new Option('--store <url>', what).argParser(nonEmpty))
}

/** Adds the flags of every command. */
export function withCommonOptions(command: Command): Command {
  return withStoreOption(command).addOption(
    new Option('--output <format>', 'Output format').choices(OUTPUT_FORMATS).default('table'),
  )
}

/** Adds the flags that filter tasks. */
export function withFilterOptions(command: Command): Command {
  return command
    .option('--kind <kind>', 'Only tasks of this kind', nonEmpty)
    .option('--category <category>', 'Only tasks in this category', nonEmpty)
    .option('--key <key>', 'Only tasks whose lane has this key', nonEmpty)
    .option('--code <code>', 'Only tasks whose last error has this code', nonEmpty)
    .option('--group <group>', 'Only tasks of this failure group: its id, or the beginning of it', nonEmpty)
    .option(
      '--where <condition>',
      'Only tasks with this in their payload: payload.tenant=acme, or payload.n:=1 for JSON. May be repeated',
      condition,
    )
}

/** Adds the flag that selects the tasks of a batch, alone. */
export function withBatchOption(command: Command): Command {
  const batch = new Option('--batch <name>', 'Only tasks of this batch').argParser(nonEmpty)
  return command.addOption(batch.conflicts(['kind', 'category', 'key', 'code', 'group', 'where']))
}

/** Adds the flags of every list. */
export function withPageOptions(command: Command, of = 'tasks'): Command {
  return command
    .option('--limit <n>', `Maximum number of ${of}`, wholeNumber(1, 10_000), 50)
    .option('--after <cursor>', 'Continue after this cursor of the previous page', nonEmpty)
    .addOption(new Option('--all', `All ${of}, however many`).conflicts(['limit', 'after']))
}

/** Adds the flag that limits the messages of a failed queue. */
export function withLimitOption(command: Command): Command {
  return command.option('--limit <n>', 'Maximum number of messages, oldest first', wholeNumber(1, 1_000_000_000))
}

/** Rejects empty text: an unset variable in a script must not turn a filter off. */
export function nonEmpty(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must not be empty.')
  return text
}

/** Parses a whole number. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return text => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= min && value <= max)) {
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
    }
    return value
  }
}

/** Parses a duration into milliseconds. */
export function duration(min: number, max = Infinity): (text: string) => number {
  return text => {
    const ms = parseDuration(text)
    if (ms === undefined) throw new InvalidArgumentError("It must be a duration such as '30s' or '5m'.")
    if (ms < min) throw new InvalidArgumentError(`It must be at least ${formatDuration(min)}.`)
    if (ms > max) throw new InvalidArgumentError(`It must be at most ${formatDuration(max)}.`)
    return ms
  }
}

/** Parses a time into milliseconds since the epoch. */
export function moment(text: string): number {
  const at = parseMoment(text)
  if (at !== undefined) return at
  throw new InvalidArgumentError('It must be a date or a time with its zone, such as 2027-03-01T08:00Z.')
}

/** Parses a number. */
export function number(text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (!Number.isFinite(value)) throw new InvalidArgumentError('It must be a number.')
  return value
}

const SECONDS = { s: 1, m: 60, h: 3600 } as const

/** Parses a rate into a number per second. */
export function rate(text: string): number {
  const [, count, unit] = /^(\d+(?:\.\d+)?)\/(s|m|h)$/.exec(text) ?? []
  const perSecond = Number(count) / SECONDS[(unit ?? 's') as keyof typeof SECONDS]
  if (!(perSecond > 0)) throw new InvalidArgumentError("It must be a rate such as '50/s', '600/m' or '100/h'.")
  return perSecond
}

/** Parses a share, the same for every flag: `20%` or `0.2`. */
export function share(text: string): number {
  const [, number, percent] = /^(\d+(?:\.\d+)?)\s*(%?)$/.exec(text) ?? []
  const value = number === undefined ? Number.NaN : Number(number) / (percent === '%' ? 100 : 1)
  if (value >= 0 && value <= 1) return value
  const meant = value > 1 && value <= 100 && percent === '' ? ` Did you mean '${number}%'?` : ''
  throw new InvalidArgumentError(`It must be a share such as '5%' or '0.05', at most 100%.${meant}`)
}

/** Collects the values of a flag that may be repeated. */
export function collect(text: string, before: readonly string[] = []): string[] {
  return [...before, nonEmpty(text)]
}

/** Parses numbers of something by its name, such as `stage=20`, for a flag that may be repeated. */
export function namedNumbers(what: string, example: string) {
  return (text: string, before: Readonly<Record<string, number>> = {}): Readonly<Record<string, number>> => {
    const [, name, count] = /^([\w.:-]+)=(\d{1,5})$/.exec(text) ?? []
    if (name === undefined || Number(count) < 1) {
      throw new InvalidArgumentError(`It must name a ${what} and a number, such as '${example}'.`)
    }
    return { ...before, [name]: Number(count) }
  }
}
