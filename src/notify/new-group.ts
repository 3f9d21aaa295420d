import { commandLine } from '../policy/internal.js'
import type { GroupRecord } from '../store/index.js'
import { type GroupStore, groupTitle } from '../store/internal.js'
import { redact } from '../telemetry/index.js'
import type { Notice } from './notice.js'
import { isOwnKind, type Occasion } from './occasion.js'

const PAGE = 100

/** New groups are reported per slot of this length: the first few individually, the rest in one summary when it ends. */
const SLOT_MS = 300_000
const MAX_PER_SLOT = 10

/** Kinds that a message about many groups names. */
const MAX_KINDS = 5

/**
 * Tells when work fails in a way that was not seen before: once per group, however many fail. A group that somebody has marked is
 * no news. Which groups are told by themselves depends on nothing but the store, so that all processes find the same messages.
 */
export const newGroup: Occasion = async ({ store, now, since }) => {
  // Whatever is left of a slot is told when it is over, so slots are looked at as a whole.
  const from = slotOf(since) - SLOT_MS
  const slots = new Map<number, GroupRecord[]>()
  for await (const group of seenSince(store.groups, from)) {
    const slot = slotOf(group.firstSeenAt)
    if (group.firstSeenAt < from || isOwnKind(group.kind)) continue
    const groups = slots.get(slot)
    if (groups === undefined) slots.set(slot, [group])
    else groups.push(group)
  }
  return [...slots].flatMap(([slot, groups]) => noticesOf(slot, groups, now, since))
}

function noticesOf(slot: number, groups: readonly GroupRecord[], now: number, since: number): Notice[] {
  const inOrder = [...groups].sort((a, b) => a.firstSeenAt - b.firstSeenAt || (a.id < b.id ? -1 : 1))
  const isNews = ({ life }: GroupRecord) => life.state === 'new'
  const told = inOrder.slice(0, MAX_PER_SLOT).filter(group => isNews(group) && group.firstSeenAt >= since)
  const rest = inOrder.slice(MAX_PER_SLOT).filter(isNews)
  const isOver = slot + SLOT_MS <= now && slot + SLOT_MS >= since
  return [...told.map(noticeOf), ...(rest.length > 0 && isOver ? [restNotice(slot, rest)] : [])]
}

function slotOf(at: number): number {
  return at - (at % SLOT_MS)
}

/** Groups come last seen first, so those that matter are in front. */
export async function* seenSince(groups: GroupStore, since: number): AsyncGenerator<GroupRecord> {
  let after: string | undefined
  do {
    const { items, next } = await groups.list({}, { limit: PAGE, ...(after !== undefined && { after }) })
    for (const group of items) {
      if (group.lastSeenAt < since) return
      yield group
    }
    after = next
  } while (after !== undefined)
}

/** The code and the failure; the code alone is not repeated where it is the class of the error. */
export function whatFailed(group: GroupRecord): string {
  const title = groupTitle(group)
  return group.code === group.errorName ? title : `${group.code}, ${title}`
}

/** The command that shows a group. It follows the redacted text, which may be cut. */
export function toSee(group: string): string {
  return `To see it, run: ${commandLine('groups show', {}, group)}`
}

function noticeOf(group: GroupRecord): Notice {
  const { id, kind, code, errorName, pattern, seen, retrying, dead } = group
  const times = seen === 1 ? 'once' : `${seen} times`
  return {
    type: 'new_group',
    subject: id,
    text: `${redact(`New failure of ${kind}: ${whatFailed(group)}. Seen ${times}; ${retrying} retrying, ${dead} dead.`)} ${toSee(id)}`,
    facts: { group: id, kind, code, errorName, pattern: redact(pattern), seen, retrying, dead },
  }
}

/** The groups of a slot that are not told by themselves. */
function restNotice(slot: number, groups: readonly GroupRecord[]): Notice {
  const counts = new Map<string, number>()
  for (const { kind } of groups) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  const kinds = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
  const named = kinds.slice(0, MAX_KINDS).map(([kind, count]) => `${kind} ${count}`)
  const others = kinds.length > MAX_KINDS ? ', …' : ''
  const count = groups.length === 1 ? 'And 1 more new failure' : `And ${groups.length} more new failures`
  const from = new Date(slot).toISOString()
  return {
    type: 'more_new_groups',
    subject: String(slot),
    text: `${redact(
      `${count} between ${from.slice(11, 16)} and ${new Date(slot + SLOT_MS).toISOString().slice(11, 16)} UTC: ${named.join(', ')}${others}.`,
    )} To list them, run: ${commandLine('groups ls', { '--state': 'new' })}`,
    facts: { count: groups.length, from, kinds: kinds.length },
  }
}
