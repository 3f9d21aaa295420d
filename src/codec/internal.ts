// For the other folders of this package.

export { envelopeOf, isEncoded, shownText } from './envelope.js'
export { KindCodec, type TextUse } from './kind-codec.js'
export { plainValue, refuseEncoded } from './missing-codec.js'
