import { FinalError } from '../policy/index.js'

/** The codes of a `CodecError`. */
export type CodecProblem =
  | 'codec_missing'
  | 'codec_key_missing'
  | 'codec_key_wrong'
  | 'codec_tampered'
  | 'codec_not_encoded'

/**
 * Thrown when a text on record cannot be decoded. The task of that text is dead with this code, and keeps everything: when the
 * cause is removed, redrive it.
 *
 * - `codec_missing`: the task has no codec, or not the one that encoded the text.
 * - `codec_key_missing`: the codec does not have the key with that id.
 * - `codec_key_wrong`: the codec has another key under that id.
 * - `codec_tampered`: the text was changed or cut off, or belongs to another task.
 * - `codec_not_encoded`: the text is plain, and the codec accepts only encrypted ones.
 */
export class CodecError extends FinalError {
  static {
    CodecError.prototype.name = 'CodecError'
  }

  constructor(code: CodecProblem, message: string) {
    super(message, { code })
  }
}
