import type { Command } from 'commander'
import { UsageError } from '../../errors.js'
import { quoted } from '../../terminal/visible.js'

/** Adds `redrive help`, for any command: `redrive help dlq ls` is `redrive dlq ls --help`. */
export function addHelp(program: Command): void {
  program
    .command('help')
    .description('Print the help of a command')
    .argument('[command...]', 'Words of the command, such as dlq ls')
    .action((words: string[]) => commandNamed(program, words).outputHelp())
}

function commandNamed(program: Command, words: readonly string[]): Command {
  return words.reduce((command, word) => {
    const found = command.commands.find(each => each.name() === word || each.aliases().includes(word))
    if (found !== undefined) return found
    const names = command.commands.map(each => each.name()).join(', ')
    const known = names === '' ? 'It has no commands of its own.' : `It has: ${names}.`
    throw new UsageError(`${quoted(pathOf(command))} has no command ${quoted(word)}. ${known}`)
  }, program)
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`
}
