import type { RunRecord, StoreStats } from '../../../store/internal.js'

/**
 * Whether a run has items left and nobody works on them: its process was killed. Nobody can tell while the lease of a process
 * that is gone still runs. A run whose reader is gone is `interrupted`.
 */
export function isUnattended({ status, isRead }: Pick<RunRecord, 'status' | 'isRead'>, stats: StoreStats): boolean {
  return status === 'running' && isRead && stats.workers === 0
}
