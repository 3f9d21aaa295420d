import type { TaskExplanation } from '../../operate/index.js'
import { isItem } from '../../store/internal.js'
import { redact } from '../../telemetry/index.js'
import { shellWord } from '../terminal/visible.js'
import type { DocumentOptions } from './document-options.js'
import type { StoreOptions } from './open-store.js'

/** From this number on, a few go first. */
const MANY = 20
const CANARY = 10

/** The command lines that redrive a dead letter, and all others like it if there are any. `store` is the `--store` flag. */
export function redriveCommands(
  letter: Pick<TaskExplanation, 'id' | 'kind' | 'errorCode' | 'group' | 'alike'>,
  store: string | undefined,
): string[] {
  const { id, kind, errorCode, group, alike } = letter
  const flags = flag('--store', store)
  const word = shellWord(id)
  const one = `redrive dlq redrive${flags} ${id.startsWith('-') ? `-- ${word}` : word}`
  if (alike < 2) return [one]
  const canary = alike > MANY ? ` --canary ${CANARY}` : ''
  if (group !== null && !isItem(letter))
    return [one, `redrive dlq redrive${flags} --group ${shellWord(group)}${canary}`]
  if (errorCode === null) return [one]
  if (isItem(letter)) {
    const pipeline = shellWord(kind.slice('pipeline:'.length))
    return [one, `redrive pipeline reprocess${flags} --pipeline ${pipeline} --error ${shellWord(errorCode)}`]
  }
  return [one, `redrive dlq redrive${flags} --kind ${shellWord(kind)} --code ${shellWord(errorCode)}${canary}`]
}

/** A command line of `redrive` on the store that this command was given: a noun, a verb if there is one, then the rest. */
export function commandLine(args: readonly string[], store: string | undefined): string {
  const verbs = args[0] === 'worker' && args[1] !== 'ls' ? 1 : 2
  const rest = args.slice(verbs)
  // An id that begins with a dash would be taken for a flag.
  const isFlag = (word: string) => /^--[a-z]/.test(word)
  const end = rest.some(word => word.startsWith('-') && !isFlag(word)) && !rest.some(isFlag) ? ['--'] : []
  const words = [...end, ...rest.map(word => (isFlag(word) ? word : shellWord(word)))]
  return [`redrive ${args.slice(0, verbs).join(' ')}${flag('--store', store)}`, ...words].join(' ')
}

/** A command line that does something with a run, on the store that this command was given. `rest` follows the run's id. */
export function pipelineCommand(verb: string, { store }: StoreOptions, run?: string, ...rest: string[]): string {
  const words = run === undefined ? rest : [shellWord(run), ...rest]
  return [`redrive pipeline ${verb}${flag('--store', store)}`, ...words].join(' ')
}

/** The command line that resets a failed document, with the source and the settings that this command was given. */
export function resetCommand(collection: string, id: string, { source, config }: DocumentOptions): string {
  const words = [collection, id]
  const end = words.some(word => word.startsWith('-')) ? ['--'] : []
  const flags = flag('--source', source) + flag('--config', config)
  return [`redrive docs reset${flags}`, ...end, ...words.map(shellWord)].join(' ')
}

/** A flag of a command line that people may pass on to others, so the password of a URL is left out. */
function flag(name: string, value: string | undefined): string {
  return value === undefined ? '' : ` ${name} ${shellWord(redact(value))}`
}
