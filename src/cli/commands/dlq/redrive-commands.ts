import type { TaskExplanation } from '../../../operate/index.js'
import { isItem, pipelineOf } from '../../../store/internal.js'
import { suggest } from '../../suggest.js'

/** From this number on, a few go first. */
const MANY = 20
const CANARY = 10

/** The command lines that redrive a dead letter, and all others like it if there are any. */
export function redriveCommands(
  letter: Pick<TaskExplanation, 'id' | 'kind' | 'errorCode' | 'group' | 'alike'>,
): string[] {
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
