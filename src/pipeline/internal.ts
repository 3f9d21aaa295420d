// For the other folders of this package. Users import from index.ts.

export type { BatchOptions } from './batch.js'
export { pausingAfter, type Sample, type SampledLine, sampledFirst, sampleJsonl } from './sample.js'
