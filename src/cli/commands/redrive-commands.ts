import type { TaskExplanation } from '../../operate/index.js'
import { redact } from '../../telemetry/index.js'
import { shellWord } from '../terminal/visible.js'

/** The command lines that redrive a dead letter, and all others like it if there are any. `store` is the `--store` flag. */
export function redriveCommands(
  { id, kind, errorCode, alike }: Pick<TaskExplanation, 'id' | 'kind' | 'errorCode' | 'alike'>,
  store: string | undefined,
): string[] {
  // The lines may be passed on to others, so the password is left out.
  const flags = store === undefined ? '' : ` --store ${shellWord(redact(store))}`
  const word = shellWord(id)
  const one = `redrive dlq redrive${flags} ${id.startsWith('-') ? `-- ${word}` : word}`
  if (alike < 2 || errorCode === null) return [one]
  return [one, `redrive dlq redrive${flags} --kind ${shellWord(kind)} --code ${shellWord(errorCode)}`]
}
