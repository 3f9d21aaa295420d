import { type Duration, OptionError } from '../policy/index.js'
import { checkOptions, isObject, type KnownOptions, mustBe, quoted } from '../policy/internal.js'
import { type Collection, checkNames, durationOf } from './collection.js'
import type { Change, DocumentRecord, DocumentSource } from './source.js'

/** Documents of one collection that should each have a document in another. @inline */
export interface CoverageOptions {
  /** The collection whose documents should be covered. It must be one that is swept. */
  readonly from: string
  /** The collection of derived documents. */
  readonly unless: string
  /** The field of a derived document that holds the id of the document that it comes from. Index it. */
  readonly reference: string
  /** How old a document must be: younger ones may be under way. Default 24 h. */
  readonly minimumAge?: Duration
  /** The time between two checks, each of which reads the whole collection. Default 24 h. */
  readonly interval?: Duration
}

/** A checked coverage, with the time of its next check. */
export interface Coverage {
  readonly from: Collection
  readonly unless: string
  readonly reference: string
  readonly minimumAgeMs: number
  /** Whether it is time for a check. If so, the next one is an interval later. */
  isDue(now: number): boolean
}

/** The result of a check. */
export interface CoverageResult {
  readonly missing: number
  readonly reopened: number
  readonly failure?: unknown
}

/**
 * Names documents that should have a derived document: those that are done, and have none, are opened again, so that the
 * next sweep requeues them. Their attempts stay counted: a document that never gets its derived one ends as failed.
 *
 * ```ts
 * expect({ from: 'messages', unless: 'embeddings', reference: 'message_id' })
 * ```
 */
export function expect(coverage: CoverageOptions): CoverageOptions {
  return coverage
}

const COVERAGE: KnownOptions<CoverageOptions> = { from: '', unless: '', reference: '', minimumAge: '', interval: '' }

export function coverageOf(options: CoverageOptions, collections: readonly Collection[]): Coverage {
  if (!isObject(options)) throw new OptionError('coverage', mustBe('coverage', 'a list of objects', options))
  checkOptions("An entry of 'coverage'", options, COVERAGE)
  const { from, unless, reference, minimumAge = '24h', interval = '24h' } = options
  const collection = collections.find(({ name }) => name === from)
  if (collection === undefined)
    throw new OptionError('coverage', `The coverage of ${quoted(from)} needs it among the collections.`)
  for (const [name, value] of Object.entries({ unless, reference })) {
    if (typeof value !== 'string')
      throw new OptionError('coverage', `The coverage of ${quoted(from)}: ${mustBe(name, 'text', value)}`)
  }
  checkNames(unless, [unless, reference])
  const intervalMs = durationOf('interval', interval)
  let next = -Infinity
  return {
    from: collection,
    unless,
    reference,
    minimumAgeMs: durationOf('minimumAge', minimumAge),
    isDue: now => {
      if (now < next) return false
      next = now + intervalMs
      return true
    },
  }
}

/** Pages over the collection by id, with one look-up per page: no join. */
export async function checkCoverage(
  coverage: Coverage,
  source: DocumentSource,
  pageSize: number,
  signal?: AbortSignal,
): Promise<CoverageResult> {
  const { from, unless, reference, minimumAgeMs } = coverage
  let missing = 0
  let reopened = 0
  try {
    const before = (await source.now()) - minimumAgeMs
    for await (const page of source.walk(from.shape, { type: 'all' }, { pageSize })) {
      if (signal?.aborted) break
      const done = page.filter(document => isDone(from, document, before))
      if (done.length === 0) continue
      const covered = await source.present(unless, reference, done)
      const lacking = done.filter(({ id }) => !covered.has(id))
      missing += lacking.length
      const changes = lacking.map((document): Change => ({ document, to: { status: from.shape.statuses.pending } }))
      if (changes.length > 0) reopened += (await source.change(from.shape, changes)).length
    }
    return { missing, reopened }
  } catch (failure) {
    return { missing, reopened, failure }
  }
}

/** Documents that are open are under way, and those that failed have an end of their own. */
function isDone({ shape }: Collection, document: DocumentRecord, before: number): boolean {
  const at = document.lastAttemptAt ?? document.createdAt ?? -Infinity
  return document.problem === undefined && document.status === shape.statuses.done && at < before
}
