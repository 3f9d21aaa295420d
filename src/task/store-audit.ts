import type { Store } from '../store/index.js'
import { contractOf } from '../store/internal.js'
import { auditRecord, type Sink } from '../telemetry/index.js'

/**
 * A sink that keeps audit records in a store, next to the work they are about. Records of the same turn share a commit.
 */
export function storeAudit(store: Store): Sink {
  const { audit } = contractOf(store)
  return function storeAuditSink(event) {
    const record = auditRecord(event)
    return record && audit.append([JSON.stringify(record)])
  }
}
