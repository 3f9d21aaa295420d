import { envelopeOf, isEncoded } from '../codec/internal.js'
import { isObject, quoted } from '../policy/internal.js'
import type { TaskRecord } from '../store/index.js'
import { type StepRecord, type StepRow, stepRecord } from '../store/internal.js'

/** The value of a stored text; `undefined` if it is damaged. */
export function jsonOf(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

/** Names the texts of a task that cannot be read. */
export function damagedTexts(task: TaskRecord): string[] {
  const fields = (['payload', 'value', 'result'] as const).filter(field => !isReadable(task[field]))
  return fields.map(field => `its ${field} is ${notReadable(task[field])}`)
}

/** Names the texts of the steps of a task that cannot be read. */
export function damagedSteps(steps: readonly StepRow[]): string[] {
  return steps.flatMap(row => {
    const { name, result } = row
    const problems = isReadable(result) ? [] : [`the result of its step ${quoted(name)} is ${notReadable(result)}`]
    return readStep(row) === undefined ? [...problems, `the record of its step ${quoted(name)} is damaged`] : problems
  })
}

/** The record of a step; `undefined` if it is damaged. */
export function readStep(row: StepRow): StepRecord | undefined {
  const state = jsonOf(row.state)?.value
  return isObject(state) && Array.isArray(state.ledger) && state.ledger.every(isObject) ? stepRecord(row) : undefined
}

/** Only the key can tell whether an encoded text is what was stored. */
function isReadable(text = 'null'): boolean {
  return isEncoded(text) ? envelopeOf(text) !== undefined : jsonOf(text) !== undefined
}

const notReadable = (text = '') => (isEncoded(text) ? 'not what a codec has encoded' : 'not JSON')
