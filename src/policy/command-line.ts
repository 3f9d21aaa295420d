import { UNSAFE } from './quoted.js'

/** Flags of a command: `true` for one without a value. One that is `undefined` or empty is left out. */
export type CommandFlags = Readonly<Record<`--${string}`, string | number | true | undefined>>

/**
 * The arguments of a `redrive` command that we suggest: its name, words such as ids, and flags. No word can be taken for a flag: a
 * value that begins with a dash is attached to its flag, and a word that does stands behind `--`. So the first `--` ends the flags.
 */
export function commandArgs(command: string, flags: CommandFlags = {}, ...words: readonly string[]): string[] {
  const given = Object.entries(flags).flatMap(([name, value]) => {
    if (value === undefined || value === '') return []
    if (value === true) return [name]
    return String(value).startsWith('-') ? [`${name}=${value}`] : [name, String(value)]
  })
  const isRisky = words.some(word => word.startsWith('-'))
  return [...command.split(' '), ...(isRisky ? [...given, '--', ...words] : [...words, ...given])]
}

/**
 * A `redrive` command that we suggest, to be copied into a shell. All commands that we print are made here: names come from users and
 * must reach the command as they are, whatever a shell would make of them.
 */
export function commandLine(command: string, flags?: CommandFlags, ...words: readonly string[]): string {
  return shellLine(commandArgs(command, flags, ...words))
}

/** Arguments of `redrive` as a line to be copied into a shell. */
export function shellLine(args: readonly string[]): string {
  return ['redrive', ...args].map(shellWord).join(' ')
}

/** Begins with no `=`, which zsh would replace by the path of a command. */
const PLAIN_WORD = /^[\w@%+:,./-][\w@%+=:,./-]*$/

const BYTES = new TextEncoder()

/**
 * A word quoted for a shell, if it needs to be. In single quotes, quotes and backslashes stand in double ones, which fish reads as sh
 * does. Text that could drive a terminal is in `$'…'`, as its bytes: a shell without that form, such as dash, gets a wrong name then,
 * and still runs nothing.
 */
export function shellWord(text: string): string {
  if (PLAIN_WORD.test(text)) return text
  if (text.search(UNSAFE) >= 0) return `$'${text.replace(NOT_PLAIN, byteEscapes)}'`
  return `'${text.replace(/['\\]+/g, found => `'"${found.replaceAll('\\', '\\\\')}"'`)}'`
}

/** All that `$'…'` escapes: what is unsafe, and what means something to a shell. */
const NOT_PLAIN = new RegExp(`${UNSAFE.source}|[^\\P{ASCII}\\w@%+=:,./ -]`, 'gu')

function byteEscapes(char: string): string {
  return [...BYTES.encode(char)].map(byte => `\\x${byte.toString(16).padStart(2, '0')}`).join('')
}
