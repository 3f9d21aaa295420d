import type { Command } from 'commander'
import type { CommandContext } from '../command.js'
import { CommandError, ExitCode } from '../errors.js'
import { writeOne } from '../terminal/output.js'
import { paragraph } from '../terminal/table.js'
import { shellWord } from '../terminal/visible.js'
import { beforeRedriving, redriveCommands, whyDead } from './dead-letter-advice.js'
import { addRedrive } from './dlq-redrive.js'
import { historyTable } from './history.js'
import { withStore } from './open-store.js'
import {
  type CommonOptions,
  type ListOptions,
  withCommonOptions,
  withFilterOptions,
  withPageOptions,
} from './options.js'
import { listTasks } from './task-list.js'
import { letterTable, maxAttemptsOf, taskText } from './task-text.js'
import { ledgerRowJson, taskJson } from './task-view.js'

/** Adds `redrive dlq`. */
export function addDlq(program: Command, context: CommandContext): void {
  const dlq = program.command('dlq').helpCommand(false).description('the dead letters: look at them, redrive them')

  const ls = dlq
    .command('ls')
    .description('list dead letters, newest first')
    .action(async (options: ListOptions) =>
      context.end(
        await listTasks(context, { ...options, status: 'dead' }, { toTable: letterTable, none: 'No dead letters.' }),
      ),
    )
  withCommonOptions(withPageOptions(withFilterOptions(ls))).addHelpText(
    'after',
    `
Examples:
  redrive dlq ls
  redrive dlq ls --kind send-email --code ECONNREFUSED
  redrive dlq ls --output jsonl | jq -r .errorMessage | sort | uniq -c`,
  )

  const show = dlq
    .command('show')
    .description('show why a task is dead, its whole history, and what to try next')
    .argument('<id>', 'the id of the dead letter')
    .action(async (id: string, options: CommonOptions) => context.end(await showLetter(context, id, options)))
  withCommonOptions(show).addHelpText('after', '\nExample:\n  redrive dlq show order-42')

  addRedrive(dlq, context)
}

function showLetter({ console, environment }: CommandContext, id: string, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const letter = await store.get(id)
    if (letter === undefined)
      throw new CommandError(`There is no task '${id}'. To see the dead letters: redrive dlq ls`)
    if (letter.status !== 'dead') {
      throw new CommandError(
        `The task '${id}' is not dead: it is ${letter.status}. To see it: redrive task show ${shellWord(id)}`,
      )
    }
    const history = await store.ledger(id)
    const maxAttempts = await maxAttemptsOf(store, history)
    const { kind, errorCode } = letter
    const { dead: alike } =
      errorCode === undefined ? { dead: 1 } : await store.count({ status: 'dead', kind, errorCode })
    const now = await store.now()
    const why = whyDead(letter)
    const next = { advice: beforeRedriving(letter), commands: redriveCommands(letter, { alike, store: options.store }) }
    const json = {
      ...taskJson(letter),
      maxAttempts: maxAttempts ?? null,
      why,
      alike,
      next,
      history: history.map(ledgerRowJson),
    }
    writeOne(console, options.output, json, () => {
      const { paint, width } = console
      const lines = [
        taskText(letter, console, now, maxAttempts),
        '',
        paint.bold('Why it is dead'),
        ...paragraph(why, { width, indent: '  ' }),
        '',
        paint.bold('History'),
        historyTable(history, console),
        '',
        paint.bold('What to try next'),
        ...paragraph(next.advice, { width, indent: '  ' }),
        ...(next.commands.length > 1
          ? paragraph(`${alike} dead letters of this kind have this code: redrive this one, or all of them.`, {
              width,
              indent: '  ',
            })
          : []),
        // Never wrapped, so that they can be copied.
        ...next.commands.map(command => `    ${paint.cyan(command)}`),
      ]
      return lines.join('\n')
    })
    return ExitCode.done
  })
}
