import { AsyncLocalStorage } from 'node:async_hooks'
import type { Command } from 'commander'
import { type CommandFlags, commandArgs, shellLine } from '../policy/internal.js'
import { withoutSecrets } from '../telemetry/index.js'

/** The command that this process runs now. Tests run several at once. */
const current = new AsyncLocalStorage<{ command?: Command }>()

/** The flags that say where a command acts: a suggested one acts on the same store, bus or database. */
const PLACES = ['store', 'bus', 'monitor', 'preset', 'source', 'config'] as const

/** Runs a command. `enter` tells which one it is, once that is known. */
export function whileSuggesting<T>(run: (enter: (command: Command) => void) => T): T {
  const running: { command?: Command } = {}
  return current.run(running, () =>
    run(command => {
      running.command = command
    }),
  )
}

/** A command to print as advice: with the words quoted for a shell, and for the same store, bus or database as this one. */
export function suggest(command: string, flags?: CommandFlags, ...words: readonly string[]): string {
  return suggestArgs(commandArgs(command, flags, ...words))
}

/** The same for arguments that `commandArgs` has made. */
export function suggestArgs(args: readonly string[]): string {
  const command = current.getStore()?.command
  if (command === undefined) return shellLine(args)
  const path = pathIn(rootOf(command), args)
  const end = path.length
  return shellLine([...args.slice(0, end), ...placesFor(path.at(-1), command), ...args.slice(end)])
}

/** The flags of the running command that the suggested one takes too. Its password is left out: people pass advice on. */
function placesFor(suggested: Command | undefined, command: Command): string[] {
  return PLACES.flatMap(name => {
    const value: unknown = command.getOptionValue(name)
    const isTaken = suggested?.options.some(({ long }) => long === `--${name}`)
    if (!isTaken || typeof value !== 'string') return []
    return commandArgs('', { [`--${name}`]: withoutSecrets(value) }).slice(1)
  })
}

/** The commands that the first arguments name, from noun to verb. */
function pathIn(root: Command, [word, ...rest]: readonly string[]): Command[] {
  const found = root.commands.find(each => each.name() === word)
  return found === undefined ? [] : [found, ...pathIn(found, rest)]
}

function rootOf(command: Command): Command {
  return command.parent === null ? command : rootOf(command.parent)
}
