import type { CodecProblem } from './errors.js'

/** A way to encode what a store keeps of the tasks of a kind. Made by `encrypted()` and `compressed()`. */
export interface Codec {
  /** The name by which encoded texts refer to it. */
  readonly name: string
  /** Whether it hides what it encodes. Then errors of the kind are encoded too. */
  readonly isSecret: boolean
  /** Whether it refuses texts that it has not encoded. */
  readonly isRequired: boolean
  /** Encodes bytes. `about` says what they belong to. `undefined` if they are better left as they are. */
  encode(content: Buffer, about: string): EncodedContent | undefined
  /** Decodes bytes. `detail` is what its layer says beside its name. Throws a `CodecFailure` if that is impossible. */
  decode(content: Buffer, detail: string, about: string): Buffer
}

/** Bytes that a codec has encoded. */
export interface EncodedContent {
  readonly content: Buffer
  /** The facts that the codec needs to decode them; empty if there is nothing to decode. */
  readonly detail: string
}

/** The reason why a codec cannot decode something: the end of a sentence about it. */
export class CodecFailure extends Error {
  constructor(
    readonly code: CodecProblem,
    problem: string,
  ) {
    super(problem)
  }
}
