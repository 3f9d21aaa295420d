import { readFileSync } from 'node:fs'
import { type Command, InvalidArgumentError } from 'commander'
import { replacedPayload } from '../../../operate/internal.js'
import { compactJson } from '../../../policy/internal.js'
import type { TaskRecord } from '../../../store/index.js'
import { isItem } from '../../../store/internal.js'
import { PayloadError } from '../../../task/index.js'
import { REDACTED } from '../../../telemetry/internal.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode, errorText, UsageError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { writeResult } from '../../terminal/output.js'
import { quoted } from '../../terminal/visible.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions } from '../shared/options.js'
import { loadTasks, withTasks } from '../worker/load-work.js'

/** The options of an edit of one task. */
export interface EditOptions extends CommonOptions {
  readonly payload?: string
  readonly file?: string
  readonly tasks?: string
  readonly why?: string
}

/** The end of the help on edits. */
export const EDIT_HELP = `
The original payload stays on record, in the history of the task: see redrive
task show. Tables show '[redacted]' instead of secrets, and --output json shows
them as they are: copy payloads from there. Items of pipelines cannot be edited.
With --tasks, or 'tasks' in the configuration of the project, a payload that
does not fit the schema of its task is refused, and one of an encrypted kind is
encrypted: without its task it cannot be edited.`

/** Adds `redrive task edit`. */
export function addEdit(task: Command, context: CommandContext): void {
  const edit = task.command('edit').description('Replace the payload of a task').argument('<id>', 'Id of the task')
  withTasks(withPayload(edit))
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .action(async (id: string, options: EditOptions) => context.end(await editOne(context, id, options, false)))
  withCommonOptions(edit).addHelpText(
    'after',
    `${EDIT_HELP}
Only tasks that wait or are dead can be edited.

Examples:
  redrive task edit order-42 --payload '{"to":"ada"}' --why 'a typo'
  redrive task show order-42 --output json | jq .payload > payload.json
  redrive task edit order-42 --file payload.json`,
  )
}

/** Adds the flags for a new payload. */
export function withPayload(command: Command): Command {
  return command
    .option('--payload <json>', 'The new payload', jsonText)
    .option('--file <path>', "File with the new payload; '-' reads it from standard input", nonEmpty)
}

/** Replaces the payload of one task and, if it is to be, redrives it. */
export async function editOne(
  { console, environment }: CommandContext,
  id: string,
  options: EditOptions,
  isRedriven: boolean,
): Promise<ExitCode> {
  const payload = payloadOf(options)
  return withStore(options, environment, async store => {
    const task = await store.get(id)
    if (task === undefined)
      throw new CommandError(`There is no task ${quoted(id)}. To list tasks, run: ${suggest('task ls')}`)
    refuseEdit(task, isRedriven)
    refuseRedacted(payload, task)
    const tasks = await loadTasks(options.tasks, environment)
    const replaced = await replacedPayload(task, payload, tasks ?? [])
    if ('problem' in replaced) throw new PayloadError(task.kind, replaced.problem)
    const by = { who: environment.user, ...(options.why !== undefined && { why: options.why }) }
    if (!(await store.edit(id, replaced.payload, by))) {
      throw new CommandError(
        `The task ${quoted(id)} has changed meanwhile. To see it, run: ${suggest('task show', {}, id)}`,
      )
    }
    const moved = isRedriven ? await store.redrive([id], by) : []
    writeResult(console, options.output, { id, isEdited: true, isRedriven: moved.length > 0 })
    console.say(moved.length > 0 ? 'Edited and redriven.' : 'Edited.')
    return ExitCode.done
  })
}

/** Only tasks that wait or are dead can be edited, and no items: their later stages have another value. */
function refuseEdit(task: TaskRecord, isRedriven: boolean): void {
  const { id, status } = task
  if (isItem(task)) throw new CommandError(`The task ${quoted(id)} is an item of a pipeline: it cannot be edited.`)
  if (status === 'dead' || (status === 'waiting' && !isRedriven)) return
  if (status === 'waiting') {
    throw new CommandError(
      `The task ${quoted(id)} is not dead: it waits. To edit it, run: ${suggest('task edit', {}, id)}`,
    )
  }
  const reason = status === 'running' ? 'it is running' : `it has ended (${status}), and does not run again`
  throw new CommandError(`The task ${quoted(id)} cannot be edited: ${reason}.`)
}

/** A payload that was copied from a table has lost its secrets. */
function refuseRedacted(payload: string, task: TaskRecord): void {
  if (!payload.includes(REDACTED) || task.payload.includes(REDACTED)) return
  throw new CommandError(
    `The new payload contains '${REDACTED}', which stands for a secret in tables. To copy the whole payload, run: ${suggest('task show', { '--output': 'json' }, task.id)} | jq .payload`,
  )
}

function payloadOf({ payload, file }: EditOptions): string {
  if ((payload === undefined) === (file === undefined))
    throw new UsageError('Pass the new payload: --payload or --file.')
  if (payload !== undefined) return payload
  const text = textOf(file ?? '')
  try {
    return jsonText(text)
  } catch {
    throw new CommandError(`The file ${quoted(file ?? '')} does not hold JSON.${redactedHint(text)}`)
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (cause) {
    throw new CommandError(`The file ${quoted(file)} cannot be read: ${errorText(cause)}`, { cause })
  }
}

/** In a table, a secret is replaced together with its quotes. */
function redactedHint(text: string): string {
  return text.includes(REDACTED) ? ` '${REDACTED}' stands for a secret. Copy the payload from --output json.` : ''
}

/** Payloads are kept without needless spaces, and with their numbers as they were written. */
export function jsonText(text: string): string {
  try {
    JSON.parse(text)
    return compactJson(text)
  } catch {
    throw new InvalidArgumentError(`It must be JSON.${redactedHint(text)}`)
  }
}
