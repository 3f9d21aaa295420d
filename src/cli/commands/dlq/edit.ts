import { type Command, InvalidArgumentError } from 'commander'
import { isObject } from '../../../policy/internal.js'
import type { PayloadPatch } from '../../../store/internal.js'
import { REDACTED } from '../../../telemetry/internal.js'
import type { CommandContext } from '../../command.js'
import { type ExitCode, UsageError } from '../../errors.js'
import { withCommonOptions } from '../shared/options.js'
import { EDIT_HELP, type EditOptions, editOne, withPayload } from '../task/edit.js'
import { withSelection } from './letter-selection.js'
import { type RedriveCommandOptions, redriveLetters, withMoveOptions } from './redrive.js'

type DlqEditOptions = EditOptions & RedriveCommandOptions

/** Adds `redrive dlq edit`. */
export function addEdit(dlq: Command, context: CommandContext): void {
  const edit = dlq.command('edit').description('Change the payload of dead letters, and redrive them')
  withMoveOptions(
    withPayload(
      withSelection(edit, 'Edit').option('--patch <json>', 'Fields to change, as a JSON Merge Patch', patchOf),
    ),
  ).action(async (ids: string[], options: DlqEditOptions) => context.end(await editLetters(context, ids, options)))
  withCommonOptions(edit).addHelpText(
    'after',
    `
--patch changes each payload as its letter moves: a field becomes the value that
the patch has for it, null removes it, and objects are merged (RFC 7396). It is
an operation with the options of redrive dlq redrive, and redrive ops undo
restores the payloads of letters that have not run. A letter whose payload would
not fit its task is left alone, and one that the patch does not change moves as
it is. Without --patch, --payload or --file replaces the payload of one letter.
${EDIT_HELP}

Examples:
  redrive dlq edit --group 9c2f --patch '{"region":"eu-1"}' --dry-run
  redrive dlq edit --kind charge --patch '{"card":{"cvc":null}}' --canary 10
  redrive dlq edit order-42 --payload '{"to":"ada"}' --why 'a typo'`,
  )
}

function editLetters(context: CommandContext, ids: readonly string[], options: DlqEditOptions): Promise<ExitCode> {
  const { patch, payload, file } = options
  if (patch !== undefined) {
    if ((payload ?? file) !== undefined)
      throw new UsageError('Pass --patch, --payload or --file, but only one of them.')
    return redriveLetters(context, ids, options)
  }
  if (payload === undefined && file === undefined && ids.length !== 1)
    throw new UsageError(`Which change? Pass --patch, such as '{"region":"eu"}'.`)
  const [id, ...more] = ids
  if (id === undefined || more.length > 0 || Object.keys(options).some(name => !OF_ONE.has(name)))
    throw new UsageError(
      '--payload and --file replace the payload of one letter: pass its id. To edit many, pass --patch.',
    )
  return editOne(context, id, options, true)
}

/** The flags of an edit of one letter. */
const OF_ONE: ReadonlySet<string> = new Set(['payload', 'file', 'tasks', 'why', 'yes', 'store', 'output'])

function patchOf(text: string): PayloadPatch {
  // A field that was copied from a table has lost its secret.
  if (text.includes(REDACTED))
    throw new InvalidArgumentError(`'${REDACTED}' stands for a secret. Pass the secret itself.`)
  const patch = parsed(text)
  // Its text, since JavaScript would round some numbers.
  if (isObject(patch) && Object.keys(patch).length > 0) return text
  throw new InvalidArgumentError('It must be a JSON object with the fields to change, such as \'{"region":"eu-1"}\'.')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
