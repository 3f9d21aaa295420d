// For the other folders of this package. Users import from index.ts.

export { pausingAfter, type Sample, type SampledLine, sampledFirst, sampleJsonl } from './sample.js'
