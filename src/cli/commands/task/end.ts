import { type Command, InvalidArgumentError } from 'commander'
import { type EndedTasks, failTasks } from '../../../operate/index.js'
import { completeWith, planEnd } from '../../../operate/internal.js'
import { compactJson } from '../../../policy/internal.js'
import type { StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import type { ExitCode } from '../../errors.js'
import { writeResult } from '../../terminal/output.js'
import { endOf } from '../dlq/letter-selection.js'
import { askFirst } from '../shared/ask-first.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions } from '../shared/options.js'
import { loadTasks, withTasks } from '../worker/load-work.js'
import { tasksText } from './arrange.js'

interface EndOptions extends CommonOptions {
  readonly why?: string
  readonly yes?: boolean
  readonly dryRun?: boolean
}

const HELP = `
A running task is left alone, since its handler may yet do the work: cancel it
first. So are items of pipelines, which their run counts. Who and why are in the
history of the task and in the audit log. Exits with 3 if some of the tasks were
left alone, and with 1 if all were.
`

/** Adds `redrive task complete` and `redrive task fail`. */
export function addEnd(task: Command, context: CommandContext): void {
  const complete = task.command('complete').description('End tasks as succeeded whose work was done by hand')
  withTasks(withEndOptions(complete, 'completed'))
    .option('--result <json>', 'Their result, for whoever waits for it', jsonText)
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .action(async (ids: string[], options: EndOptions & { readonly result?: string; readonly tasks?: string }) => {
      const { result, why, tasks: file } = options
      const act = async (store: StoreContract, named: readonly string[]) => {
        const tasks = (await loadTasks(file, context.environment)) ?? []
        return completeWith(store, named, result, { who: context.environment.user, ...(why && { why }), tasks })
      }
      context.end(await endNamed(context, ids, options, { name: 'complete', done: 'completed', act }))
    })
  withCommonOptions(complete).addHelpText(
    'after',
    `
Takes tasks that wait, are dead or were cancelled.${HELP}
Examples:
  redrive task complete order-42 --why 'paid by bank transfer'
  redrive task complete order-42 --result '{"paid":true}' --yes`,
  )

  const fail = task.command('fail').description('Make dead letters of tasks that are not to be tried any more')
  withEndOptions(fail, 'failed')
    .requiredOption('--why <text>', 'Reason, which becomes their last error', nonEmpty)
    .action(async (ids: string[], options: EndOptions & { readonly why: string }) => {
      const { why } = options
      const act = (store: StoreContract, named: readonly string[]) =>
        failTasks(store, named, { who: context.environment.user, why })
      context.end(await endNamed(context, ids, options, { name: 'fail', done: 'failed', act }))
    })
  withCommonOptions(fail).addHelpText(
    'after',
    `
Takes tasks that wait or were cancelled. They are dead letters from then on, with
the reason failed_by_hand, and can be redriven. What is to follow a death
(onDead) follows. To end a task without a dead letter, see redrive task cancel.
${HELP}
Examples:
  redrive task fail order-42 --why 'the customer is gone'`,
  )
}

function withEndOptions(command: Command, done: string): Command {
  return command
    .argument('<ids...>', 'Ids of the tasks')
    .option('--dry-run', `Say how many tasks would be ${done}, and change none`)
    .option('-y, --yes', 'Skip the confirmation prompt')
}

/** An act on named tasks, and its name in the past. */
interface EndAct {
  readonly name: 'complete' | 'fail'
  readonly done: string
  readonly act: (store: StoreContract, ids: readonly string[]) => Promise<EndedTasks>
}

function endNamed(
  { console, environment }: CommandContext,
  ids: readonly string[],
  options: EndOptions,
  { name, done, act }: EndAct,
): Promise<ExitCode> {
  const { output, yes, dryRun } = options
  return withStore(options, environment, async store => {
    const plan = await planEnd(store, name, ids)
    const tasks = tasksText(plan.ids.length)
    if (dryRun) {
      for (const { text } of plan.refused) console.say(text)
      writeResult(console, output, { [done]: 0, ...plan })
      console.say(`${tasks} would be ${done}. This was a dry run: 0 ${done}.`)
      return endOf(plan.ids.length, plan.refused.length)
    }
    if (!yes && plan.ids.length > 0) {
      const effect = `${tasks} would be ${done}.`
      await askFirst(environment, { question: `${effect} Go on?`, effect, nothing: `0 ${done}.` })
    }
    const { ids: ended, refused } = await act(store, ids)
    for (const { text } of refused) console.say(text)
    writeResult(console, output, { [done]: ended.length, ids: ended, refused })
    console.say(`${ended.length} ${done}.`)
    return endOf(ended.length, refused.length)
  })
}

function jsonText(text: string): string {
  try {
    JSON.parse(text)
    return compactJson(text)
  } catch {
    throw new InvalidArgumentError('It must be JSON.')
  }
}
