import type { Command } from 'commander'
import type { TaskExplanation } from '../../../operate/index.js'
import { isText } from '../../../operate/internal.js'
import { isItem, pipelineOf } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode } from '../../errors.js'
import { suggest } from '../../suggest.js'
import type { Console } from '../../terminal/console.js'
import { writeOne } from '../../terminal/output.js'
import { paragraph } from '../../terminal/table.js'
import { quoted } from '../../terminal/visible.js'
import { withStore } from '../shared/open-store.js'
import { type ListOptions, withCommonOptions, withFilterOptions, withPageOptions } from '../shared/options.js'
import { explained, type ShowOptions } from '../task/explain.js'
import { historyTable, stackLines } from '../task/history.js'
import { printTasks } from '../task/list.js'
import { notesLines } from '../task/notes.js'
import { stepLines } from '../task/steps.js'
import { letterTable, taskText } from '../task/text.js'
import { withTaskCodecs } from '../worker/load-work.js'
import { addCount } from './count.js'
import { addDiscard } from './discard.js'
import { addEdit } from './edit.js'
import { addExport } from './export.js'
import { addRedrive } from './redrive.js'

/** From this number on, a few go first. */
const MANY = 20
const CANARY = 10

/** Adds `redrive dlq`. */
export function addDlq(program: Command, context: CommandContext): void {
  const dlq = program
    .command('dlq')
    .helpCommand(false)
    .description('List, count, show, redrive, edit, discard and export the dead letters of a store')

  const ls = dlq
    .command('ls')
    .description('List dead letters, newest first')
    .action(async (options: ListOptions) =>
      context.end(
        await printTasks(context, { ...options, status: 'dead' }, { toTable: letterTable, what: 'dead letters' }),
      ),
    )
  withCommonOptions(withPageOptions(withFilterOptions(ls))).addHelpText(
    'after',
    `
Examples:
  redrive dlq ls
  redrive dlq ls --kind send-email --code ECONNREFUSED
  redrive dlq ls --all --output jsonl > dead-letters.jsonl`,
  )

  addCount(dlq, context)

  const show = dlq
    .command('show')
    .description('Show why a task is dead, its history, and what to do next')
    .argument('<id>', 'Id of the dead letter')
    .action(async (id: string, options: ShowOptions) => context.end(await showLetter(context, id, options)))
  withCommonOptions(withTaskCodecs(show)).addHelpText('after', '\nExample:\n  redrive dlq show order-42')

  addRedrive(dlq, context)
  addEdit(dlq, context)
  addDiscard(dlq, context)
  addExport(dlq, context)
}

function showLetter({ console, environment }: CommandContext, id: string, options: ShowOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const letter = await explained(store, id, options, environment)
    if (letter === undefined) {
      throw new CommandError(`There is no task ${quoted(id)}. To list dead letters, run: ${suggest('dlq ls')}`)
    }
    if (letter.status !== 'dead') {
      throw new CommandError(
        `The task ${quoted(id)} is not dead: ${isText(letter.status)}. To see it, run: ${suggest('task show', {}, id)}`,
      )
    }
    const commands = redriveCommands(letter)
    const now = await store.now()
    writeOne(console, options.output, { ...letter, commands }, () => letterText(letter, commands, console, now))
    return ExitCode.done
  })
}

function blocksText(waiting: number): string {
  const tasks = waiting === 1 ? '1 task waits' : `${waiting} tasks wait`
  return `It blocks its ordered lane, in which ${tasks}, until it is redriven or discarded.`
}

/** In which way others are like it: see `alike`. */
function sameness(letter: TaskExplanation): string {
  return letter.group === null || isItem(letter) ? 'have this kind and error code' : 'failed in the same way'
}

function letterText(letter: TaskExplanation, commands: readonly string[], console: Console, now: number): string {
  const { paint, width } = console
  const indented = (text: string) => paragraph(text, { width, indent: '  ' })
  return [
    taskText(letter, console, now),
    '',
    paint.bold('Why it is dead'),
    ...indented(letter.cause?.text ?? ''),
    ...stackLines(letter, console),
    ...stepLines(letter.steps, console, now),
    ...notesLines(letter, console, now),
    '',
    paint.bold('History'),
    historyTable(letter, console),
    '',
    paint.bold('What to do next'),
    ...indented(letter.advice?.text ?? ''),
    ...(commands.length > 1
      ? indented(`${letter.alike} dead letters ${sameness(letter)}. Redrive this one, or all of them:`)
      : []),
    // Never wrapped, so that they can be copied.
    ...commands.map(command => `    ${paint.cyan(command)}`),
    ...(letter.blocks === null ? [] : indented(blocksText(letter.blocks.waiting))),
  ].join('\n')
}

/** The command lines that redrive a dead letter, and all others like it if there are any. */
function redriveCommands(letter: Pick<TaskExplanation, 'id' | 'kind' | 'errorCode' | 'group' | 'alike'>): string[] {
  const { id, kind, errorCode, group, alike } = letter
  const one = suggest('dlq redrive', {}, id)
  if (alike < 2) return [one]
  const canary = alike > MANY ? { '--canary': CANARY } : {}
  if (group !== null && !isItem(letter)) return [one, suggest('dlq redrive', { '--group': group, ...canary })]
  if (errorCode === null) return [one]
  if (isItem(letter)) {
    return [one, suggest('pipeline reprocess', { '--pipeline': pipelineOf(letter), '--error': errorCode })]
  }
  return [one, suggest('dlq redrive', { '--kind': kind, '--code': errorCode, ...canary })]
}
