import type { StoreContract } from '../store/internal.js'
import { auditRecord, type Sink } from '../telemetry/index.js'

/**
 * A sink that keeps audit records in a store, next to the work they are about. Records of the same turn share a commit.
 */
export function storeAudit(store: Pick<StoreContract, 'audit'>): Sink {
  return function storeAuditSink(event) {
    const record = auditRecord(event)
    return record && store.audit.append([JSON.stringify(record)])
  }
}
