/**
 * JSON as text. JavaScript rounds 9007199254740993 and writes 1.0 as 1, so whatever is stored, shown or edited is handled as
 * the text that it came as. These functions expect valid JSON, and do not recurse, however deep it is.
 */

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g

/** The tokens of JSON, without white space. */
export function jsonTokens(json: string): readonly string[] {
  return json.match(TOKEN) ?? []
}

/** JSON without white space. */
export function compactJson(json: string): string {
  return /\s/.test(json) ? jsonTokens(json).join('') : json
}

/** How many levels a token adds. */
const LEVELS = new Map([
  ['{', 1],
  ['[', 1],
  ['}', -1],
  [']', -1],
])

/** JSON on indented lines, as `JSON.stringify(value, null, 2)` writes it. */
export function indentedJson(json: string): string {
  const parts: string[] = []
  let [depth, isOpened] = [0, false]
  const newLine = () => `\n${'  '.repeat(depth)}`
  for (const token of jsonTokens(json)) {
    const levels = LEVELS.get(token) ?? 0
    if (levels < 0) depth--
    // An empty object or list stays on its line.
    if (isOpened !== levels < 0) parts.push(newLine())
    parts.push(token)
    if (levels > 0) depth++
    isOpened = levels > 0
    if (token === ':') parts.push(' ')
    if (token === ',') parts.push(newLine())
  }
  return parts.join('')
}

/** The members of a JSON object, each value as its text: the last one of a name counts. `undefined` if it is no object. */
export function membersOf(json: string): ReadonlyMap<string, string> | undefined {
  if (!/^\s*\{/.test(json)) return undefined
  const members = new Map<string, string>()
  let [depth, start] = [0, 0]
  let name: string | undefined
  for (const { 0: token, index } of json.matchAll(TOKEN)) {
    const isOutermost = depth === 1
    depth += LEVELS.get(token) ?? 0
    if (!isOutermost) continue
    if (name === undefined) name = token.startsWith('"') ? (JSON.parse(token) as string) : undefined
    else if (token === ':') start = index + 1
    else if (token === ',' || token === '}') {
      members.set(name, json.slice(start, index).trim())
      name = undefined
    }
  }
  return members
}

/**
 * Applies a JSON Merge Patch (RFC 7396). Members that it does not change keep their text and their order; if it changes none,
 * so does the whole. Recurses once per level of the patch.
 */
export function mergePatch(target: string | undefined, patch: string): string {
  const changes = membersOf(patch)
  if (changes === undefined) return target !== undefined && isSame(target, patch) ? target : patch
  const before = target === undefined ? undefined : membersOf(target)
  const after = new Map(before)
  let isChanged = before === undefined
  for (const [name, change] of changes) {
    const old = after.get(name)
    if (change === 'null') isChanged = after.delete(name) || isChanged
    else {
      const value = mergePatch(old, change)
      after.set(name, value)
      isChanged ||= value !== old
    }
  }
  if (!isChanged && target !== undefined) return target
  return `{${Array.from(after, ([name, value]) => `${JSON.stringify(name)}:${value}`).join()}}`
}

/** Whether two texts differ in white space and escapes only. */
function isSame(a: string, b: string): boolean {
  const unescaped = (token: string) => (token.includes('\\') ? JSON.stringify(JSON.parse(token)) : token)
  const [left = [], right = []] = [a, b].map(text => jsonTokens(text).map(unescaped))
  return left.length === right.length && left.every((token, n) => token === right[n])
}

/** The texts of values that were read from JSON and would be written in another way, and what would be written. */
const texts = new WeakMap<object, { readonly text: string; readonly written: string }>()

/** A number that is the whole of a JSON text, as an object: only objects can have a text. */
class BareNumber extends Number {}

/**
 * The value of a JSON text, which `exactJson` writes as the text that it came from; the text itself if it is not JSON, or
 * too deep to be written again.
 */
export function exactValue(json: string): unknown {
  try {
    const value: unknown = JSON.parse(json)
    const written = JSON.stringify(value)
    if (written === json) return value
    const kept = typeof value === 'number' ? new BareNumber(value) : value
    if (typeof kept === 'object' && kept !== null) texts.set(kept, { text: json, written })
    return kept
  } catch {
    return json
  }
}

/**
 * The JSON of a value, without white space, in which values from `exactValue` are the texts that they came from, unless they
 * were changed since.
 */
export function exactJson(value: unknown): string {
  const found: string[] = []
  const mark = `json:${crypto.randomUUID()}:`
  const json = JSON.stringify(value, function (this: Record<string, unknown>, name, part: unknown) {
    const given = this[name]
    const known = typeof given === 'object' && given !== null ? texts.get(given) : undefined
    if (known === undefined || JSON.stringify(given) !== known.written) return part
    return mark + (found.push(known.text) - 1)
  })
  if (found.length === 0) return json
  return compactJson(json.replace(new RegExp(`"${mark}(\\d+)"`, 'g'), (_, n) => found[Number(n)] ?? ''))
}
