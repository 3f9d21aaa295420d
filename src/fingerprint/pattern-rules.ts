import { createHash } from 'node:crypto'
import { MAX_PATTERN } from './pattern.js'
import { FINGERPRINT_VERSION } from './version.js'

/** An operator's rule about which messages are one. */
export interface PatternRule {
  /** The kind of the tasks. Default: every kind. */
  readonly kind?: string | undefined
  /**
   * The message, from its beginning to its end. `*` stands for any text, which varies; `{*}` for any text that tells one group
   * from another, and so becomes part of the pattern.
   */
  readonly pattern: string
}

/** A text between the wildcards of a rule, and whether the wildcard before it keeps its text. */
interface Part {
  readonly isKept: boolean
  readonly text: string
}

interface CompiledRule<R extends PatternRule> {
  readonly rule: R
  readonly first: string
  readonly parts: readonly Part[]
  /** How many characters are given: the rule with the most is the most specific one. */
  readonly given: number
}

const WILDCARD = /(\{\*\}|\*)/

/**
 * The rules of a store, ready to be applied. Of several rules that match a message, the one with the most characters that are
 * no wildcards holds: so a longer pattern keeps apart what a shorter one merges.
 */
export class PatternRules<R extends PatternRule = PatternRule> {
  /**
   * Names the algorithm and the rules: those who report the same one make the same groups of the same failures. The version
   * alone, if there are no rules.
   */
  readonly grouping: string
  readonly #rules: readonly CompiledRule<R>[]

  constructor(rules: readonly R[]) {
    this.#rules = rules.map(rule => compiled(rule)).sort(bySpecificity)
    const given = this.#rules.map(({ rule: { kind, pattern } }) => [kind ?? null, pattern])
    const hash = createHash('sha256').update(JSON.stringify(given)).digest('hex').slice(0, 12)
    this.grouping = given.length === 0 ? `${FINGERPRINT_VERSION}` : `${FINGERPRINT_VERSION}.${hash}`
  }

  /** The pattern that a rule gives a message of this kind; `undefined` if none matches. */
  patternOf(kind: string, message: string): string | undefined {
    return this.#match(kind, message)?.pattern
  }

  /** The rule that gives the messages of a group their pattern; `undefined` if none does. */
  ruleOf(kind: string, pattern: string): R | undefined {
    // A rule matches a pattern of its own as it does the messages, since `*` is a text like any other.
    const match = this.#match(kind, pattern)
    return match?.pattern === pattern ? match.rule : undefined
  }

  #match(kind: string, message: string): { readonly rule: R; readonly pattern: string } | undefined {
    for (const candidate of this.#rules) {
      const { rule } = candidate
      if (rule.kind !== undefined && rule.kind !== kind) continue
      const pattern = applied(candidate, message)
      if (pattern !== undefined) return { rule, pattern: pattern.slice(0, MAX_PATTERN) }
    }
    return undefined
  }
}

/** The rules of a store that has none. */
export const NO_RULES: PatternRules = new PatternRules([])

function compiled<R extends PatternRule>(rule: R): CompiledRule<R> {
  const [first = '', ...rest] = rule.pattern.split(WILDCARD)
  const parts: Part[] = []
  for (let i = 0; i < rest.length; i += 2) parts.push({ isKept: rest[i] !== '*', text: rest[i + 1] ?? '' })
  const given = parts.reduce((sum, { text }) => sum + text.length, first.length)
  return { rule, first, parts, given }
}

/** The most specific rule comes first. The order depends on nothing but the rules, so that all processes agree. */
function bySpecificity(one: CompiledRule<PatternRule>, other: CompiledRule<PatternRule>): number {
  if (one.given !== other.given) return other.given - one.given
  const [a, b] = [one.rule, other.rule]
  if (a.kind !== b.kind) return (a.kind ?? '\uffff') < (b.kind ?? '\uffff') ? -1 : 1
  return a.pattern < b.pattern ? -1 : 1
}

/**
 * Finds each text of a rule at the first place behind the one before, and the last one at the end of the message: that finds a
 * match wherever there is one, and reads the message once.
 */
function applied({ first, parts }: CompiledRule<PatternRule>, message: string): string | undefined {
  if (!message.startsWith(first)) return undefined
  let pattern = first
  let from = first.length
  for (const [index, { isKept, text }] of parts.entries()) {
    const isLast = index === parts.length - 1
    const at = isLast ? message.length - text.length : message.indexOf(text, from)
    if (at < from || !message.startsWith(text, at)) return undefined
    pattern += (isKept ? message.slice(from, at) : '*') + text
    from = at + text.length
  }
  return from === message.length ? pattern : undefined
}
