import { isEncoded } from './envelope.js'
import { CodecError } from './errors.js'

/** The value of a JSON text of a kind without a codec. Throws a `CodecError` if a codec has encoded it. */
export function plainValue(json: string, kind: string): unknown {
  try {
    return JSON.parse(json)
  } catch (failure) {
    refuseEncoded(json, kind)
    throw failure
  }
}

/** Throws a `CodecError` if a codec has encoded a text, since there is none here. */
export function refuseEncoded(text: string, kind: string): void {
  if (!isEncoded(text)) return
  const advice = "Pass the task whose declaration has its 'codec'."
  throw new CodecError('codec_missing', `The kind '${kind}' is encoded, and there is no codec for it here. ${advice}`)
}
