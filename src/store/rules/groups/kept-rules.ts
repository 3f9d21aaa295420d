import type { GroupRule, GroupRules } from '../../contract/group-rule.js'
import type { StoredRecord } from '../../port/record-port.js'

/** The type of the two records: of the rules, and of the last grouping. */
export const GROUPING = 'grouping'

/** The ids of these records. */
export const RULES = 'rules'
const REGROUPED = 'regrouped'

/** The rules of a store, and the last id that was given to one. */
interface KeptRules {
  readonly lastId: number
  readonly rules: readonly GroupRule[]
}

export function keptRules(record: StoredRecord | undefined): KeptRules {
  return record === undefined ? { lastId: 0, rules: [] } : (JSON.parse(record.state) as KeptRules)
}

export function rulesRecord(kept: KeptRules): StoredRecord {
  return recordOf(RULES, kept)
}

export function regroupedRecord(grouping: string): StoredRecord {
  return recordOf(REGROUPED, grouping)
}

/** Reads the two records, as far as there are any. */
export function groupRules(records: readonly StoredRecord[]): GroupRules {
  const regrouped = records.find(({ id }) => id === REGROUPED)
  const { rules } = keptRules(records.find(({ id }) => id === RULES))
  return { rules, regrouped: regrouped && (JSON.parse(regrouped.state) as string) }
}

function recordOf(id: string, state: KeptRules | string): StoredRecord {
  return { id, place: 0, isOpen: true, state: JSON.stringify(state) }
}
