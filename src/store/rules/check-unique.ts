import { OptionError } from '../../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../../policy/internal.js'
import type { NewTask, UniqueConflict, UniqueKey, UniqueScope } from '../contract/task.js'

const FIELDS: KnownOptions<UniqueKey> = { key: '', while: '', withinMs: '', conflict: '', maxWaitMs: '' }

/** The conflicts that a scope allows, and why it allows no others. */
const CONFLICTS: Readonly<Record<UniqueScope, { readonly allowed: readonly UniqueConflict[]; readonly why: string }>> =
  {
    waiting: {
      allowed: ['keep', 'replace', 'postpone'],
      why: "a task gives its key back when it starts, so none could wait for its end. For 'after', use while: 'unfinished'",
    },
    unfinished: {
      allowed: ['keep', 'replace', 'after'],
      why: "a task that runs cannot be postponed. For 'postpone', use while: 'waiting'",
    },
    within: { allowed: ['keep'], why: 'a task keeps its key for that time, whether or not it has run by then' },
  }

/** Checks the unique key of a new task. */
export function checkUnique({ runAt, tried }: NewTask, unique: UniqueKey): void {
  checkOptions('A unique key', unique, FIELDS)
  const { key, while: scope, withinMs, conflict, maxWaitMs } = unique
  if (key === '') throw new OptionError('unique.key', "'unique.key' must not be empty.")
  if (tried !== undefined)
    throw new OptionError('unique', 'A task whose first attempt was made elsewhere cannot have a unique key.')
  const rules = Object.hasOwn(CONFLICTS, scope) ? CONFLICTS[scope] : undefined
  if (rules === undefined)
    throw new OptionError(
      'unique.while',
      `'unique.while' must be one of ${Object.keys(CONFLICTS).join(', ')}, got ${quoted(scope)}.`,
    )
  if (!['keep', 'replace', 'postpone', 'after'].includes(conflict))
    throw new OptionError(
      'unique.conflict',
      `'unique.conflict' must be one of keep, replace, postpone, after, got ${quoted(conflict)}.`,
    )
  if (!rules.allowed.includes(conflict))
    throw new OptionError('unique.conflict', `while: '${scope}' cannot have conflict: '${conflict}': ${rules.why}.`)
  checkSpan('within', withinMs, scope === 'within', "while: 'within'")
  checkSpan('maxWait', maxWaitMs, conflict === 'postpone', "conflict: 'postpone'")
  if (conflict === 'postpone' && runAt === undefined)
    throw new OptionError('runAt', "conflict: 'postpone' needs a 'delay' or a 'runAt': the time to postpone to.")
}

/** No key is held, and no task postponed, for longer than about 300 years. */
const MAX_SPAN = 1e13

/** Checks a duration that is required with one setting and has no meaning without. */
function checkSpan(option: string, ms: number | undefined, isNeeded: boolean, setting: string): void {
  const name = `unique.${option}`
  if (!isNeeded && ms !== undefined) throw new OptionError(name, `'${name}' goes with ${setting} only.`)
  if (!isNeeded) return
  if (ms === undefined) throw new OptionError(name, `${setting} needs '${name}': ${NEEDS[option]}.`)
  if (!(ms > 0 && ms <= MAX_SPAN))
    throw new OptionError(name, `'${name}' must be a duration above 0, got ${quoted(ms)}.`)
}

const NEEDS: Readonly<Record<string, string>> = {
  within: 'how long the key stays taken',
  maxWait: 'how long a task may be postponed at most, without which steady traffic would never let it run',
}
