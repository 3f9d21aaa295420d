import { type Fingerprint, fingerprint, isBug, type PatternRules } from '../../fingerprint/internal.js'
import type { LedgerRow, TaskRecord } from '../../store/index.js'
import type { FailureGroup, Regrouping, TaskReader } from '../../store/internal.js'

/** Small enough that nobody waits for the transaction that moves them. */
const PAGE = 200

type MemberReader = Pick<TaskReader, 'list' | 'ledgers'>

/**
 * The moves of a group's tasks that a grouping asks for, page by page; pages without any are left out. The group that most of
 * the first page go to is the heir.
 */
export async function* plannedMoves(
  store: MemberReader,
  from: string,
  rules: PatternRules,
): AsyncGenerator<Regrouping & { readonly looked: number }> {
  let heir: FailureGroup | undefined
  let after: string | undefined
  do {
    const { items, next } = await store.list({ group: from }, { limit: PAGE, ...(after !== undefined && { after }) })
    const groups = await groupsOf(store, items, rules)
    // Failures of too many sorts have nothing in common that could be handed on.
    if (after === undefined && !from.startsWith('other:')) heir = commonest(groups, from)
    const moves = items.flatMap(({ id }, index) => {
      const to = groups[index]
      return to === undefined || to.id === from ? [] : [{ task: id, to }]
    })
    if (moves.length > 0) yield { from, ...(heir !== undefined && { heir }), moves, looked: items.length }
    after = next
  } while (after !== undefined)
}

/** Lost attempts have no error, so that no rule is about them. */
export function isLostGroup(id: string): boolean {
  return id.startsWith('lost:')
}

/** The groups of these tasks, from what is on record; `undefined` where no failure is. */
async function groupsOf(
  store: MemberReader,
  tasks: readonly TaskRecord[],
  rules: PatternRules,
): Promise<(Fingerprint | undefined)[]> {
  // A redriven task has its error in the ledger alone, and so has a bug its stack.
  const unclear = tasks.filter(({ errorMessage }) => errorMessage === undefined || isBug(errorMessage))
  const ledgers = unclear.length === 0 ? [] : await store.ledgers(unclear.map(({ id }) => id))
  const failures = new Map(unclear.map(({ id }, index) => [id, lastFailure(ledgers[index] ?? [])]))
  return tasks.map(({ id, kind, errorCode, errorMessage }) => {
    if (!failures.has(id)) return fingerprint({ kind, code: errorCode, error: errorMessage }, rules)
    const failure = failures.get(id)
    return (
      failure && fingerprint({ kind, code: failure.verdict?.code, error: failure.error, stack: failure.stack }, rules)
    )
  })
}

function lastFailure(ledger: readonly LedgerRow[]): LedgerRow | undefined {
  return ledger.findLast(({ group }) => group !== undefined)
}

/** The group that occurs most often; `undefined` if most stay where they are. */
function commonest(groups: readonly (Fingerprint | undefined)[], from: string): Fingerprint | undefined {
  const counts = new Map<string, { readonly group: Fingerprint; count: number }>()
  let staying = 0
  for (const group of groups) {
    if (group === undefined || group.id === from) staying++
    else {
      const known = counts.get(group.id) ?? { group, count: 0 }
      known.count++
      counts.set(group.id, known)
    }
  }
  const [most] = [...counts.values()].sort((a, b) => b.count - a.count)
  return most !== undefined && most.count > staying ? most.group : undefined
}
