import type { Command } from 'commander'
import { type Why, why } from '../../../operate/index.js'
import type { WhyAction } from '../../../operate/internal.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode, errorText } from '../../errors.js'
import { suggest, suggestArgs } from '../../suggest.js'
import type { Console } from '../../terminal/console.js'
import { writeOne } from '../../terminal/output.js'
import { paragraph } from '../../terminal/table.js'
import { quoted, visible } from '../../terminal/visible.js'
import { withSource } from '../docs/options.js'
import { documentsWithId, printDocumentWhy } from '../docs/why.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, withCommonOptions } from '../shared/options.js'

/** Adds `redrive why`. */
export function addWhy(program: Command, context: CommandContext): void {
  const command = program
    .command('why')
    .description('Explain why a task waits, runs, or has ended as it has, and what to do')
    .argument('<id>', 'Id of the task, of a run of a schedule, or of a document')
    .action(async (id: string, options: CommonOptions) => context.end(await printWhy(context, id, options)))
  withCommonOptions(command).addHelpText(
    'after',
    `
The first line is the answer: what keeps the task from starting, or the rule
that ended it. Other causes and the commands that help follow.

If no task has this id, it is looked up in your own collections, provided that
REDRIVE_SOURCE or redrive.config names their database (see redrive docs why).

A slot of a schedule is named by its run, or by its local time; it may have no
task, and the answer says why.

Examples:
  redrive why order-42
  redrive why nightly-report@2027-03-28T02:30
  redrive why order-42 --output json | jq -r '.causes[].code'`,
  )
}

async function printWhy(context: CommandContext, id: string, options: CommonOptions): Promise<ExitCode> {
  try {
    return await printTaskWhy(context, id, options)
  } catch (error) {
    // A project that only sweeps documents has no store.
    if (!(error instanceof CommandError)) throw error
    const isDocument = await printWhyOfDocument(context, id, options).catch((failure: unknown) => {
      if (failure instanceof CommandError) throw failure
      context.console.say(`Your collections cannot be read: ${errorText(failure)}`)
      return false
    })
    if (isDocument) return ExitCode.done
    throw error
  }
}

function printTaskWhy({ console, environment }: CommandContext, id: string, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const answer = await why(store, id)
    if (answer === undefined) {
      throw new CommandError(
        `There is no task ${quoted(id)}: it was never enqueued here, or has been pruned. To list tasks, run: ${suggest('task ls')}`,
      )
    }
    const actions = answer.actions.map(action => ({ text: action.text, command: commandOf(action) }))
    writeOne(console, options.output, { ...answer, actions }, () => whyText(answer, actions, console))
    return ExitCode.done
  })
}

/** Prints the answer for a document with this id. Returns whether there is one. */
async function printWhyOfDocument(
  { console, environment }: CommandContext,
  id: string,
  { output }: CommonOptions,
): Promise<boolean> {
  if (!environment.env.REDRIVE_SOURCE) return false
  return withSource({}, environment, async (source, collections) => {
    const [first, ...others] = await documentsWithId(source, collections, id)
    if (first === undefined) return false
    if (others.length > 0) {
      const names = [first, ...others].map(({ collection }) => collection.name)
      throw new CommandError(
        `Documents in ${names.join(' and ')} have the id ${quoted(id)}. To ask about one, run: ${suggest('docs why', {}, first.collection.name, id)}`,
      )
    }
    await printDocumentWhy(console, source, first.collection, first.document, { output })
    return true
  })
}

function commandOf({ args }: WhyAction): string | null {
  return args === null ? null : suggestArgs(args)
}

interface Action {
  readonly text: string
  readonly command: string | null
}

function whyText(
  { id, kind, status, isTask, answer, causes }: Why,
  actions: readonly Action[],
  console: Console,
): string {
  const { paint, width } = console
  const indented = (text: string) => paragraph(text, { width, indent: '  ' })
  return [
    ...paragraph(answer, { width, indent: '' }).map(paint.bold),
    ...(isTask ? paragraph(`Task ${visible(id)} of kind ${visible(kind)} is ${status}.`, { width, indent: '' }) : []),
    ...(causes.length > 1 ? ['', paint.bold('Also')] : []),
    ...causes.slice(1).flatMap(({ text }) => indented(text)),
    ...(actions.length > 0 ? ['', paint.bold('What to do')] : []),
    ...actions.flatMap(({ text, command }) => [
      ...indented(text),
      // Never wrapped, so that it can be copied.
      ...(command === null ? [] : [`    ${paint.cyan(command)}`]),
    ]),
  ].join('\n')
}
