// For the other folders of this package. Users import from index.ts.

export { collectionOf } from './collection.js'
export {
  cutOf,
  type DocumentExplanation,
  explainDocument,
  failedDocuments,
  findDocument,
  purgeDocuments,
  requeueDocument,
  resetDocument,
} from './operate-documents.js'
export { failedSet, resetTarget } from './reset-work.js'
export type { Begun } from './service.js'
