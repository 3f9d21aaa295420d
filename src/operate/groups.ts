import { shownText } from '../codec/internal.js'
import { messagePattern, PatternRules } from '../fingerprint/internal.js'
import { OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { GroupRecord, LedgerRow, Store, TaskRecord } from '../store/index.js'
import type { GroupFilter } from '../store/internal.js'
import {
  contractOf,
  type FailureGroup,
  type GroupLife,
  type GroupRule,
  type GroupState,
  type StoreContract,
} from '../store/internal.js'

import { withoutSecrets } from '../telemetry/index.js'
import { GroupNotFoundError } from './errors.js'
import { pagesOf } from './pages.js'

/** A failure group as plain JSON: times as ISO 8601 text in UTC. */
export interface GroupView extends Omit<GroupRecord, 'firstSeenAt' | 'lastSeenAt' | 'life'> {
  /** When it was seen for the first time. */
  readonly firstSeenAt: string
  /** When it was last seen. */
  readonly lastSeenAt: string
  /** Its state, and how it came there. */
  readonly life: GroupLifeView
}

/** The life of a group as plain JSON. */
export interface GroupLifeView {
  /** Where it is in its life. */
  readonly state: GroupState
  /** When it came there, in ISO 8601. Absent while it is new, as are the others. */
  readonly at?: string
  /** The person who marked it. Of a regressed group: as fixed. */
  readonly who?: string
  /** The reason that they gave. */
  readonly why?: string
  /** Of a fixed group, the release with the fix. Of a regressed one, the release that failed. */
  readonly release?: string
  /** Of a fixed group, the other releases that live workers reported then. */
  readonly before?: readonly string[]
  /** Of a regressed group, the release that was to have the fix. */
  readonly fixedIn?: string
  /** When it is ignored no longer: once one of these is passed. */
  readonly until?: { readonly at?: string; readonly count?: number; readonly perHour?: number }
  /** Of an ignored group, its failed attempts before the mark. */
  readonly seen?: number
}

/** A rule about groups as plain JSON. */
export interface GroupRuleView extends Omit<GroupRule, 'at'> {
  /** When it was added: ISO 8601 text in UTC. */
  readonly at: string
}

/** A failure group with some of its tasks. */
export interface GroupExplanation extends GroupView {
  /** The ids of up to three tasks, those that changed last. */
  readonly examples: readonly string[]
  /** The facts that make these failures one group. */
  readonly why: string
  /** The rule that gives their messages this pattern; `null` if none does. */
  readonly rule: GroupRuleView | null
  /** Fields in which its latest tasks agree, with their value. */
  readonly shared: Readonly<Record<string, string | number>>
  /** Fields in which they differ, with the commonest values. */
  readonly varies: Readonly<Record<string, readonly (string | number)[]>>
  /** How many tasks were compared: the latest, at most 100. */
  readonly compared: number
}

type GroupReader = Pick<StoreContract, 'groups'>

const MAX_EXAMPLES = 3
const MAX_COMPARED = 100
const MAX_VALUES = 3

/**
 * Lists failure groups, last seen first.
 *
 * ```ts
 * const [latest] = await listGroups(store, { kind: 'charge' })
 * console.log(latest?.pattern, latest?.dead) // 'order * not found' 3214
 * ```
 */
export async function listGroups(store: Store, filter: GroupFilter = {}): Promise<GroupView[]> {
  const contract = contractOf(store)
  const groups: GroupView[] = []
  for await (const page of pagesOf(page => contract.groups.list(filter, page))) groups.push(...page.map(groupView))
  return groups
}

/** The view of a group. */
export function groupView({ firstSeenAt, lastSeenAt, life, ...group }: GroupRecord): GroupView {
  return {
    ...group,
    firstSeenAt: new Date(firstSeenAt).toISOString(),
    lastSeenAt: new Date(lastSeenAt).toISOString(),
    life: lifeView(life),
  }
}

function lifeView(life: GroupLife): GroupLifeView {
  if (life.state === 'new') return life
  const at = new Date(life.at).toISOString()
  if (life.state !== 'ignored') return { ...life, at }
  const { at: time, ...until } = life.until
  return { ...life, at, until: { ...until, ...(time !== undefined && { at: new Date(time).toISOString() }) } }
}

/**
 * Finds the group that an id, or the beginning of one, stands for: `1-9c2f0b7d41aa83e6`, `1-9c2f` or `9c2f`. Throws a
 * `GroupNotFoundError` if there is none, and an `OptionError` if there is more than one.
 */
export async function findGroup(store: GroupReader, text: string): Promise<GroupRecord> {
  const exact = await store.groups.get(text)
  if (exact !== undefined) return exact
  const found: GroupRecord[] = []
  for await (const page of pagesOf(page => store.groups.list({}, page)))
    found.push(...page.filter(({ id }) => id.startsWith(text) || id.replace(/^\d+-/, '').startsWith(text)))
  const [group, another] = found
  if (group === undefined) throw new GroupNotFoundError(text)
  if (another === undefined) return group
  const ids = [...found.slice(0, 5).map(({ id }) => id), ...(found.length > 5 ? ['…'] : [])].join(', ')
  throw new OptionError(
    'group',
    `${quoted(text)} stands for ${found.length} failure groups: ${ids}. Give more of the id.`,
  )
}

/** Explains a group: why its failures are one, which tasks are in it, what they share and what varies. */
export async function explainGroup(store: Store, text: string): Promise<GroupExplanation> {
  const contract = contractOf(store)
  const group = await findGroup(contract, text)
  const [{ items: tasks }, { rules }] = await Promise.all([
    contract.list({ group: group.id }, { limit: MAX_COMPARED }),
    contract.groups.rules(),
  ])
  const ledgers = await contract.ledgers(tasks.map(({ id }) => id))
  const rule = new PatternRules(rules).ruleOf(group.kind, messagePattern(group.pattern))
  return {
    ...groupView(group),
    examples: tasks.slice(0, MAX_EXAMPLES).map(({ id }) => id),
    why: whyOneGroup(group, rule),
    rule: rule === undefined ? null : groupRuleView(rule),
    ...compared(tasks.map((task, place) => ({ ...task, ...whereFailed(ledgers[place]) }))),
    compared: tasks.length,
  }
}

/** The view of a rule. */
export function groupRuleView({ at, ...rule }: GroupRule): GroupRuleView {
  return { ...rule, at: new Date(at).toISOString() }
}

/** The facts of a group in words, and the rule behind its pattern. */
function whyOneGroup(
  { id, kind, code, errorName, pattern, frames }: FailureGroup,
  rule: GroupRule | undefined,
): string {
  if (id.startsWith('lost:')) return `Attempts at ${quoted(kind)} whose worker died or lost its lease.`
  if (id.startsWith('other:')) {
    const which = code === '' ? 'with codes for which there is no group' : `with the code ${quoted(code)}`
    return `Failures of ${quoted(kind)} ${which} that came when the kind had 1000 groups.`
  }
  const facts = [
    `the kind ${quoted(kind)}`,
    ...(errorName === '' ? [] : [`the class ${errorName}`]),
    `the code ${quoted(code)}`,
    `the message ${quoted(pattern)}${pattern.includes('*') ? ', in which * stands for what varies' : ''}`,
    ...(frames.length === 0 ? [] : [`the place ${frames.join(' < ')}`]),
  ]
  const all = `All have ${facts.slice(0, -1).join(', ')} and ${facts.at(-1)}.`
  if (rule === undefined) return all
  const why = rule.why === undefined ? '' : `: ${withoutSecrets(rule.why)}`
  return `${all} Rule ${rule.id} says so, ${quoted(rule.pattern)}, added by ${rule.who}${why}.`
}

/** The worker and the release of an attempt that failed. */
type Where = Partial<Pick<LedgerRow, 'worker' | 'release'>>

/** Where a task last failed: a bad machine or release shows there. */
function whereFailed(ledger: readonly LedgerRow[] = []): Where {
  const { worker, release } = ledger.findLast(({ group }) => group !== undefined) ?? {}
  return { worker, release }
}

const FIELDS = ['category', 'key', 'status', 'attempts', 'worker', 'release', 'reason', 'errorMessage'] as const

function factOf(task: TaskRecord & Where, field: (typeof FIELDS)[number]): string | number {
  const value = task[field] ?? ''
  return field === 'errorMessage' ? shownText(String(value)) : value
}

/** The facts that tasks share, and those that vary among them. */
function compared(tasks: readonly (TaskRecord & Where)[]): Pick<GroupExplanation, 'shared' | 'varies'> {
  const shared: Record<string, string | number> = {}
  const varies: Record<string, (string | number)[]> = {}
  for (const field of FIELDS) {
    const counts = new Map<string | number, number>()
    for (const task of tasks) {
      const value = factOf(task, field)
      counts.set(value, (counts.get(value) ?? 0) + 1)
    }
    const values = [...counts].sort(([, a], [, b]) => b - a).map(([value]) => value)
    const [first] = values
    if (values.length > 1) varies[field] = values.slice(0, MAX_VALUES)
    else if (first !== undefined && first !== '') shared[field] = first
  }
  return { shared, varies }
}
