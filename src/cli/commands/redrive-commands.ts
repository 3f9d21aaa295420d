import type { TaskExplanation } from '../../operate/index.js'
import { isItem } from '../../operate/internal.js'
import { redact } from '../../telemetry/index.js'
import { shellWord } from '../terminal/visible.js'
import type { StoreOptions } from './open-store.js'

/** The command lines that redrive a dead letter, and all others like it if there are any. `store` is the `--store` flag. */
export function redriveCommands(
  letter: Pick<TaskExplanation, 'id' | 'kind' | 'errorCode' | 'alike'>,
  store: string | undefined,
): string[] {
  const { id, kind, errorCode, alike } = letter
  const flags = storeFlag(store)
  const word = shellWord(id)
  const one = `redrive dlq redrive${flags} ${id.startsWith('-') ? `-- ${word}` : word}`
  if (alike < 2 || errorCode === null) return [one]
  if (isItem(letter)) {
    const pipeline = shellWord(kind.slice('pipeline:'.length))
    return [one, `redrive pipeline reprocess${flags} --pipeline ${pipeline} --error ${shellWord(errorCode)}`]
  }
  return [one, `redrive dlq redrive${flags} --kind ${shellWord(kind)} --code ${shellWord(errorCode)}`]
}

/** A command line that does something with a run, on the store that this command was given. `rest` follows the run's id. */
export function pipelineCommand(verb: string, { store }: StoreOptions, run?: string, ...rest: string[]): string {
  const words = run === undefined ? rest : [shellWord(run), ...rest]
  return [`redrive pipeline ${verb}${storeFlag(store)}`, ...words].join(' ')
}

/** The `--store` flag of a command line that people may pass on to others, so the password is left out. */
function storeFlag(store: string | undefined): string {
  return store === undefined ? '' : ` --store ${shellWord(redact(store))}`
}
