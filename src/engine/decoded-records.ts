import { CodecError } from '../codec/index.js'
import { type KindCodec, shownText, type TextUse } from '../codec/internal.js'
import type { LedgerRow, TaskRecord } from '../store/index.js'
import type { AttemptNotes, ClaimedTask, StepAttempt, StepRecord } from '../store/internal.js'

/** Decodes a text on record of the thing with this id. */
export type Decode = (text: string, use: TextUse, id: string) => string

/** Decodes, or throws a `CodecError`. */
export function strictly(codec: KindCodec): Decode {
  return (text, use, id) => codec.decode(text, use, id)
}

/** Decodes, or leaves a text as it is and says why. For people who look at a record of which a part cannot be read. */
export function leniently(codec: KindCodec, onProblem: (problem: CodecError) => void): Decode {
  return (text, use, id) => {
    try {
      return codec.decode(text, use, id)
    } catch (failure) {
      if (!(failure instanceof CodecError)) throw failure
      onProblem(failure)
      return text
    }
  }
}

/** A claimed task with its input as its handler gets it. Throws a `CodecError` if that cannot be decoded. */
export function decodedInput(task: ClaimedTask, codec: KindCodec): ClaimedTask {
  const { id, payload, value } = task
  const decoded = { ...task, payload: codec.decode(payload, 'payload', id) }
  return value === undefined ? decoded : { ...decoded, value: codec.decode(value, 'value', id) }
}

/** A task as it was before its codec encoded it. */
export function decodedTask(task: TaskRecord, codec: KindCodec, decode: Decode): TaskRecord {
  const { id, payload, value, result, errorMessage } = task
  return {
    ...task,
    payload: decode(payload, 'payload', id),
    value: value === undefined ? undefined : decode(value, 'value', id),
    result: result === undefined ? undefined : decode(result, 'result', id),
    errorMessage: errorMessage === undefined ? undefined : codec.readableError(errorMessage, id),
  }
}

/** A row of the ledger of the task with this id. */
export function decodedRow(row: LedgerRow, id: string, codec: KindCodec, decode: Decode): LedgerRow {
  const { error, stack, before, notes } = row
  return {
    ...row,
    ...(error !== undefined && { error: codec.readableError(error, id) }),
    ...(stack !== undefined && { stack: codec.readableError(stack, id) }),
    ...(before !== undefined && { before: decodedBefore(before, id, codec, decode) }),
    ...(notes !== undefined && { notes: decodedNotes(notes, id, codec) }),
  }
}

/** The notes that a handler left of an attempt at the task with this id. */
export function decodedNotes(notes: AttemptNotes, id: string, codec: KindCodec): AttemptNotes {
  const { progress, log } = notes
  return {
    ...notes,
    ...(progress?.text !== undefined && { progress: { ...progress, text: codec.readableError(progress.text, id) } }),
    ...(log !== undefined && { log: log.map(line => ({ ...line, text: codec.readableError(line.text, id) })) }),
  }
}

function decodedBefore(
  before: NonNullable<LedgerRow['before']>,
  id: string,
  codec: KindCodec,
  decode: Decode,
): typeof before {
  const { payload, errorMessage } = before
  return {
    ...before,
    ...(payload !== undefined && { payload: decode(payload, 'payload', id) }),
    ...(errorMessage !== undefined && { errorMessage: codec.readableError(errorMessage, id) }),
  }
}

/** A step of the task with this id. */
export function decodedStep(step: StepRecord, id: string, codec: KindCodec, decode: Decode): StepRecord {
  const { name, result } = step
  const ledger = step.ledger.map(attempt => decodedStepAttempt(attempt, id, codec))
  return { ...step, ledger, result: result === undefined ? undefined : decode(result, 'step result', stepId(id, name)) }
}

function decodedStepAttempt(attempt: StepAttempt, id: string, codec: KindCodec): StepAttempt {
  return attempt.error === undefined ? attempt : { ...attempt, error: codec.readableError(attempt.error, id) }
}

/** The owner of a step's result. */
export function stepId(id: string, name: string): string {
  return `${id}/${name}`
}

/** The text of a failure on record as it can be read here: without a codec, its encoded part is left out. */
export function readableError(text: string, id: string, codec: KindCodec | undefined): string {
  return codec === undefined ? shownText(text) : codec.readableError(text, id)
}
