export type { Codec, EncodedContent } from './codec.js'
export { compressed } from './compressed.js'
export { encrypted } from './encrypted.js'
export { CodecError, type CodecProblem } from './errors.js'
