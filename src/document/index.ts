export type { Collection, CollectionOptions, DocumentEvent, Shape } from './collection.js'
export { expect } from './coverage.js'
export { DocumentBusyError, NoCollectionError, NoDocumentError, NoFieldError } from './errors.js'
export { openMongodbSource } from './mongodb/mongodb-source.js'
export { openPostgresSource } from './postgres/postgres-source.js'
export { type Beginning, type DocumentService, documentService } from './service.js'
export type {
  Change,
  Cut,
  DocumentRecord,
  DocumentSource,
  DocumentWalkOptions,
  NewValues,
  OnRefused,
  Selection,
  Survey,
} from './source.js'
export { openSqliteSource } from './sqlite/sqlite-source.js'
export { type Sweeper, type SweeperOptions, type SweeperSettings, type SweepReport, sweeper } from './sweeper.js'
