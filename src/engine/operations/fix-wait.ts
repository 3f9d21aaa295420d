import { hasFix, type OperationRecord, type WorkerRecord } from '../../store/internal.js'

/** Why an operation that needs a fix does not go on. */
export interface FixWait {
  /** The kind whose workers must have the fix. */
  readonly kind: string
  /** The first release with the fix. */
  readonly release: string
  /** Live workers of the kind that lack it. Without any, no worker of the kind is alive. */
  readonly older: readonly WorkerRecord[]
}

/** The fix that an operation waits for; `undefined` if it needs none, or if all live workers of its kind have it. */
export function fixWait(
  { settings: { fixedIn }, set }: Pick<OperationRecord, 'settings' | 'set'>,
  workers: readonly WorkerRecord[],
): FixWait | undefined {
  if (fixedIn === undefined || !('filter' in set)) return undefined
  const { kind = '' } = set.filter
  const own = workers.filter(({ kinds }) => kinds === undefined || kinds.includes(kind))
  const older = own.filter(({ release }) => !hasFix(release, fixedIn))
  return own.length > 0 && older.length === 0 ? undefined : { kind, release: fixedIn.release, older }
}
