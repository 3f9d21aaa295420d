import type { Bus } from '../bus/index.js'
import { LetterCopies } from '../event/internal.js'
import { fingerprint, PatternRules } from '../fingerprint/internal.js'
import type { FailureGroup, NewGroupRule } from '../store/internal.js'
import { redact } from '../telemetry/index.js'
import { type Clock, systemClock } from '../time/index.js'
import { findFailedQueue } from './failed-queues.js'
import { messageView } from './message-view.js'
import { type WalkOptions, walkFailedQueue } from './walk.js'

/** A failure that was looked at, in a failed queue or in a document. */
export interface SeenFailure {
  /** The id of the message or the document; `null` if it has none. */
  readonly id: string | null
  /** Tells apart failures of different work: the type of an event, the name of a collection. */
  readonly kind: string
  /** Why it was given up; empty if nothing says so. */
  readonly code: string
  /** `Name: message`; `undefined` if it has none. */
  readonly error: string | undefined
  /** Whether it is a second copy of a failure, not to be counted again. */
  readonly isCopy?: boolean
}

/** Failures with the same fingerprint, among those that were looked at. */
export interface SeenGroup extends FailureGroup {
  /** How many were looked at. */
  readonly count: number
  /** The ids of the first three. */
  readonly examples: readonly string[]
}

/** The groups of failures that nobody counts as they happen, as of one look at them. */
export interface SeenGroups {
  /** When the look began, as ISO 8601 text in UTC. */
  readonly asOf: string
  /** How many failures were looked at. */
  readonly looked: number
  /** How many of them were second copies of a dead letter, which no group counts. */
  readonly copies: number
  /** The groups, the largest first. */
  readonly groups: readonly SeenGroup[]
}

/** Options of a look. */
export interface LookOptions {
  /** The rules of a store about groups. Default: none. */
  readonly rules?: readonly NewGroupRule[]
  /** Default: the system clock. */
  readonly clock?: Clock
}

const MAX_EXAMPLES = 3

/** A look keeps as many groups as a kind has in a store; the rest is counted together. */
const MAX_GROUPS = 1000

/**
 * Groups failures as they are looked at, by the same fingerprint as the failures of tasks. A failed queue and a collection of your own
 * have no transaction that could count their groups, so the figures are as of this look.
 */
export async function groupFailures(
  failures: AsyncIterable<SeenFailure>,
  { rules = [], clock = systemClock }: LookOptions = {},
): Promise<SeenGroups> {
  const compiled = new PatternRules(rules)
  const asOf = new Date(clock.now()).toISOString()
  const groups = new Map<string, { facts: FailureGroup; count: number; examples: string[] }>()
  let looked = 0
  let copies = 0
  for await (const { id, kind, code, error, isCopy } of failures) {
    looked++
    if (isCopy) {
      copies++
      continue
    }
    const facts = fingerprint({ kind, code, error: error === undefined ? undefined : redact(error) }, compiled)
    const isKept = groups.has(facts.id) || groups.size < MAX_GROUPS
    const { id: key } = isKept ? facts : OTHERS
    const group = groups.get(key) ?? { facts: isKept ? facts : OTHERS, count: 0, examples: [] }
    group.count++
    if (id !== null && group.examples.length < MAX_EXAMPLES) group.examples.push(id)
    groups.set(key, group)
  }
  const inOrder = [...groups.values()].sort((a, b) => b.count - a.count || (a.facts.id < b.facts.id ? -1 : 1))
  return { asOf, looked, copies, groups: inOrder.map(({ facts, ...figures }) => ({ ...facts, ...figures })) }
}

const OTHERS: FailureGroup = { id: 'other', kind: '', code: '', errorName: '', pattern: 'other failures', frames: [] }

/**
 * Groups the messages of a failed queue, oldest first. They stay there.
 *
 * ```ts
 * const { asOf, groups } = await groupFailedQueue(bus, 'orders.failed')
 * console.log(asOf, groups[0]?.pattern, groups[0]?.count)
 * ```
 */
export async function groupFailedQueue(
  bus: Bus,
  name: string,
  { limit, signal, ...options }: LookOptions & WalkOptions = {},
): Promise<SeenGroups> {
  await findFailedQueue(bus, name)
  const range = { ...(limit !== undefined && { limit }), ...(signal !== undefined && { signal }) }
  async function* failures(): AsyncGenerator<SeenFailure> {
    const seen = new LetterCopies()
    for await (const message of walkFailedQueue(bus, name, range)) {
      const isCopy = seen.has(message)
      seen.add(message)
      const view = messageView(message)
      const letter = 'body' in view && typeof view.body === 'object' && view.body !== null ? view.body : {}
      yield {
        id: view.id,
        kind: view.type,
        code: redact(textOf(Reflect.get(letter, 'abandoned_reason')) ?? ''),
        error: textOf(Reflect.get(letter, 'last_error')),
        isCopy,
      }
    }
  }
  return groupFailures(failures(), options)
}

/** Anybody can put a message into a queue, so its fields may hold anything. */
function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
