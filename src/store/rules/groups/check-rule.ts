import { OptionError } from '../../../policy/index.js'
import { quoted } from '../../../policy/internal.js'
import type { NewGroupRule, Regrouping } from '../../contract/group-rule.js'
import type { By } from '../../contract/ledger.js'
import { checkGroup, checkGroupId, checkName, checkPerson, checkText } from '../check.js'

/** Each failure is compared with all rules. */
const MAX_RULES = 100

/** The ledger has no longer messages. */
const MAX_PATTERN = 1000

export function checkRule({ kind, pattern }: NewGroupRule, by: By): void {
  if (kind !== undefined) checkName('kind', kind)
  checkText('pattern', pattern)
  if (pattern.trim() === '') throw new OptionError('pattern', `'pattern' must not be empty.`)
  if (pattern.length > MAX_PATTERN)
    throw new OptionError('pattern', `'pattern' must have at most ${MAX_PATTERN} characters, got ${pattern.length}.`)
  checkPerson(by)
}

export function checkRuleId(id: unknown): void {
  if (Number.isSafeInteger(id)) return
  throw new OptionError('id', `'id' must be the number of a rule, got ${quoted(id)}.`)
}

/** Checks that there is room for another rule. */
export function checkRuleCount(count: number): void {
  if (count < MAX_RULES) return
  throw new OptionError('pattern', `The store has ${MAX_RULES} rules about groups, which is the maximum. Remove one.`)
}

export function checkRegrouping({ from, heir, moves }: Regrouping): void {
  checkGroupId(from)
  if (heir !== undefined) checkGroup(heir)
  for (const { task, to } of moves) {
    checkName('id', task)
    checkGroup(to)
  }
}
