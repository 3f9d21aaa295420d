import type { Command } from 'commander'
import { type Why, type WhyAction, why } from '../../operate/index.js'
import type { CommandContext } from '../command.js'
import { CommandError, ExitCode } from '../errors.js'
import type { Console } from '../terminal/console.js'
import { writeOne } from '../terminal/output.js'
import { paragraph } from '../terminal/table.js'
import { quoted, visible } from '../terminal/visible.js'
import { withStore } from './open-store.js'
import { type CommonOptions, withCommonOptions } from './options.js'
import { commandLine } from './redrive-commands.js'

/** Adds `redrive why`. */
export function addWhy(program: Command, context: CommandContext): void {
  const command = program
    .command('why')
    .description('Explain why a task waits, runs, or has ended as it has, and what to do')
    .argument('<id>', 'Id of the task')
    .action(async (id: string, options: CommonOptions) => context.end(await printWhy(context, id, options)))
  withCommonOptions(command).addHelpText(
    'after',
    `
The first line is the answer: what keeps the task from starting, or the rule that
ended it. Further lines are what holds besides, and the commands that help.

For a document of your own collections, see: redrive docs why --help

Examples:
  redrive why order-42
  redrive why order-42 --output json | jq -r '.causes[].code'`,
  )
}

function printWhy({ console, environment }: CommandContext, id: string, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const answer = await why(store, id)
    if (answer === undefined) {
      throw new CommandError(
        `There is no task ${quoted(id)}: it was never enqueued here, or has been pruned. To list tasks, run: redrive task ls`,
      )
    }
    const actions = answer.actions.map(action => ({ text: action.text, command: commandOf(action, options.store) }))
    writeOne(console, options.output, { ...answer, actions }, () => whyText(answer, actions, console))
    return ExitCode.done
  })
}

function commandOf({ args }: WhyAction, store: string | undefined): string | null {
  return args === null ? null : commandLine(args, store)
}

interface Action {
  readonly text: string
  readonly command: string | null
}

function whyText({ id, kind, status, answer, causes }: Why, actions: readonly Action[], console: Console): string {
  const { paint, width } = console
  const indented = (text: string) => paragraph(text, { width, indent: '  ' })
  return [
    ...paragraph(answer, { width, indent: '' }).map(paint.bold),
    ...paragraph(`Task ${visible(id)} of kind ${visible(kind)} is ${status}.`, { width, indent: '' }),
    ...(causes.length > 1 ? ['', paint.bold('Besides')] : []),
    ...causes.slice(1).flatMap(({ text }) => indented(text)),
    ...(actions.length > 0 ? ['', paint.bold('What to do')] : []),
    ...actions.flatMap(({ text, command }) => [
      ...indented(text),
      // Never wrapped, so that it can be copied.
      ...(command === null ? [] : [`    ${paint.cyan(command)}`]),
    ]),
  ].join('\n')
}
