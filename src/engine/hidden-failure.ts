import type { End } from '../attempt/index.js'
import { CodecError } from '../codec/index.js'
import type { KindCodec } from '../codec/internal.js'
import { describeFailure, failureText } from '../telemetry/index.js'
import { describedText, stepFailureText } from '../telemetry/internal.js'

/**
 * Failures of kinds whose codec encrypts. Their names and codes stay readable, since lists, groups and alerts need them; their
 * messages and stacks may repeat a payload. A `CodecError` says why nothing can be read, and nothing else.
 */
function isHidden(failure: unknown, codec: KindCodec | undefined): codec is KindCodec {
  return codec?.isSecret === true && !(failure instanceof CodecError)
}

/** The text of a failure as the ledger of the task with this id keeps it. `step` is the step that failed. */
export function recordedText(failure: unknown, id: string, codec: KindCodec | undefined, step?: string): string {
  if (!isHidden(failure, codec)) return step === undefined ? failureText(failure) : stepFailureText(step, failure)
  const { name, message } = describeFailure(failure)
  return describedText({ name, message: message === '' ? '' : codec.encode(message, 'error', id) }, step)
}

/** The stack of a failure as the ledger keeps it. */
export function recordedStack(
  stack: string | undefined,
  failure: unknown,
  id: string,
  codec: KindCodec | undefined,
): string | undefined {
  return stack === undefined || !isHidden(failure, codec) ? stack : codec.encode(stack, 'error', id)
}

/** A text that a handler told of its attempt, as its worker reports it and the ledger keeps it: it may quote a payload, too. */
export function recordedNote(text: string, id: string, codec: KindCodec | undefined): string {
  return codec?.isSecret === true ? codec.encode(text, 'error', id) : text
}

/** The end of an attempt as sinks and traces are told of it: they write to logs, files and other services. */
export function toldEnd(end: End, codec: KindCodec | undefined): End {
  return end.type === 'failed' && isHidden(end.failure, codec)
    ? { ...end, failure: new HiddenFailure(end.failure) }
    : end
}

/** Stands for a failure whose message and stack nobody is told. */
class HiddenFailure extends Error {
  constructor(failure: unknown) {
    super('(encoded)')
    this.name = describeFailure(failure).name
    this.stack = ''
  }
}
