import type { TaskExplanation } from '../../operate/index.js'
import { redact } from '../../telemetry/index.js'
import { shellWord } from '../terminal/visible.js'
import { isItem } from './task-text.js'

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

/** The `--store` flag of a command line that people may pass on to others, so the password is left out. */
export function storeFlag(store: string | undefined): string {
  return store === undefined ? '' : ` --store ${shellWord(redact(store))}`
}
