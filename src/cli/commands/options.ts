import { type Command, InvalidArgumentError, Option } from 'commander'
import { parseDuration } from '../../policy/index.js'
import { OUTPUT_FORMATS, type OutputFormat } from '../terminal/output.js'
import { DEFAULT_STORE, type StoreOptions } from './open-store.js'

/** The flags of every command. */
export interface CommonOptions extends StoreOptions {
  readonly output: OutputFormat
}

/** The flags of every list. */
export interface ListOptions extends CommonOptions {
  readonly kind?: string
  readonly category?: string
  readonly key?: string
  readonly code?: string
  readonly limit: number
  readonly after?: string
}

/** Adds the flag that says which store. */
export function withStoreOption(command: Command): Command {
  const where = `where the tasks are (or REDRIVE_STORE; default: ${DEFAULT_STORE})`
  return command.addOption(new Option('--store <url>', where).argParser(nonEmpty))
}

/** Adds the flags of every command. */
export function withCommonOptions(command: Command): Command {
  return withStoreOption(command).addOption(
    new Option('--output <format>', 'how data is written').choices(OUTPUT_FORMATS).default('table'),
  )
}

/** Adds the flags that choose tasks. */
export function withFilterOptions(command: Command): Command {
  return command
    .option('--kind <kind>', 'only of this kind', nonEmpty)
    .option('--category <category>', 'only of this category', nonEmpty)
    .option('--key <key>', "only with this lane's key", nonEmpty)
    .option('--code <code>', "only with this error's code", nonEmpty)
}

/** Adds the flags of every list. */
export function withPageOptions(command: Command): Command {
  return command
    .option('--limit <n>', 'how many to list', wholeNumber(1, 10_000), 50)
    .option('--after <cursor>', 'go on where the last page ended', nonEmpty)
}

/** Adds the flag that limits the messages of a failed queue. */
export function withLimitOption(command: Command): Command {
  return command.option('--limit <n>', 'maximum number of messages, oldest first', wholeNumber(1, 1_000_000_000))
}

/** A variable that was not set in a script must not turn a filter into none. */
export function nonEmpty(text: string): string {
  if (text === '') throw new InvalidArgumentError('It is empty.')
  return text
}

/** Reads a whole number. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return text => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= min && value <= max)) {
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
    }
    return value
  }
}

/** Reads a duration, as milliseconds. */
export function duration(min: number): (text: string) => number {
  return text => {
    const ms = parseDuration(text)
    if (ms === undefined || ms < min) throw new InvalidArgumentError("It must be a duration such as '30s' or '5m'.")
    return ms
  }
}

const SECONDS = { s: 1, m: 60, h: 3600 } as const

/** Reads a rate, as so many per second. */
export function rate(text: string): number {
  const [, count, unit] = /^(\d+(?:\.\d+)?)\/(s|m|h)$/.exec(text) ?? []
  const perSecond = Number(count) / SECONDS[(unit ?? 's') as keyof typeof SECONDS]
  if (!(perSecond > 0)) throw new InvalidArgumentError("It must be a rate such as '50/s', '600/m' or '100/h'.")
  return perSecond
}

/** Collects a flag that may be given more than once. */
export function collect(text: string, before: readonly string[] = []): string[] {
  return [...before, nonEmpty(text)]
}
