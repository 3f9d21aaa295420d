import { type Attempt, RetryExhaustedError, retry } from '../call/index.js'
import type { PolicyInput } from '../policy/index.js'
import { describeFailure } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'
import { DocumentNotFoundError } from './errors.js'

/** The version of a document. A later state has a higher version. */
export type Version = number | bigint | string

/** The options of `waitForVersion`. @inline */
export interface WaitForVersionOptions<V extends Version> {
  /** Compares two versions; negative if the first is earlier. Default: `<`, which puts the text '10' before '9'. */
  readonly compare?: ((a: V, b: V) => number) | undefined
  /** Stops waiting. Pass the event's own signal, for example. */
  readonly signal?: AbortSignal | undefined
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
}

/** Waits only briefly, because a waiting handler occupies its slot. */
const A_MOMENT: PolicyInput = { attempts: 6, backoff: { base: '25ms', max: '500ms' }, jitter: 'none' }

/**
 * Reads until it sees a document at least as new as the version that an event carries, and returns it.
 *
 * ```ts
 * const order = await waitForVersion(() => replica.findOrder(event.order), event.version)
 * ```
 *
 * Rejects with a `DocumentNotFoundError` once the policy gives up; the event's own policy then takes over.
 */
export async function waitForVersion<Document extends { readonly version: Version }>(
  read: (attempt: Attempt) => Promise<Document | null | undefined> | Document | null | undefined,
  version: Document['version'],
  policy: PolicyInput = A_MOMENT,
  { compare = byValue, signal, clock }: WaitForVersionOptions<Document['version']> = {},
): Promise<Document> {
  const look = async (attempt: Attempt) => {
    const document = await read(attempt)
    if (document && compare(document.version, version) >= 0) return document
    throw new DocumentNotFoundError(`Only ${document ? `version ${document.version}` : 'nothing'} can be seen yet.`)
  }
  try {
    return await retry(look, policy, { signal, clock })
  } catch (error) {
    if (!(error instanceof RetryExhaustedError)) throw error
    const { message } = describeFailure(error.cause)
    throw new DocumentNotFoundError(`Version ${version} could not be seen in time. ${message}`, { cause: error.cause })
  }
}

function byValue(a: Version, b: Version): number {
  return a < b ? -1 : a > b ? 1 : 0
}
