import { InvalidArgumentError } from 'commander'
import { UsageError } from '../../errors.js'
import { quoted } from '../../terminal/visible.js'

/** A field of payloads, and its value as JSON text. */
export interface Condition {
  readonly path: readonly string[]
  readonly value: string
}

/** `payload.order.id`, with quotes around a name that has dots or such in it. */
const CONDITION = /^payload((?:\.(?:"(?:[^"\\]|\\.)*"|[^.:="\s]+))+)(:?=)(.*)$/s
const NAMES = /"(?:[^"\\]|\\.)*"|[^.]+/g

const FORM = "It must be payload.<field>=<text>, or payload.<field>:=<json>, such as 'payload.tenant=acme'."

/** Collects conditions. As in HTTPie, `=` takes a text, and `:=` takes JSON. */
export function condition(text: string, before: readonly Condition[] = []): Condition[] {
  const [, names, sign, value = ''] = CONDITION.exec(text) ?? []
  if (names === undefined) throw new InvalidArgumentError(FORM)
  const path = (names.match(NAMES) ?? []).map(nameOf)
  if (sign === '=') return [...before, { path, value: JSON.stringify(value) }]
  if (!isJson(value)) throw new InvalidArgumentError(`${quoted(value)} is not JSON. For a text, use '='.`)
  return [...before, { path, value }]
}

function nameOf(written: string): string {
  if (!written.startsWith('"')) return written
  if (!isJson(written)) throw new InvalidArgumentError(`${written} is not a name in JSON's quotes.`)
  return String(JSON.parse(written))
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** A field of an object that is being made: other fields, or a value as JSON text. */
type Fields = Map<string, Fields | string>

/** The part of payloads that conditions describe, as JSON text; `undefined` without conditions. */
export function partOf(conditions: readonly Condition[] | undefined): string | undefined {
  if (conditions === undefined) return undefined
  const all: Fields = new Map()
  for (const { path, value } of conditions) add(all, path, value, path)
  return textOf(all)
}

function add(fields: Fields, [name = '', ...rest]: readonly string[], value: string, path: readonly string[]): void {
  const known = fields.get(name)
  if (known === undefined) fields.set(name, rest.length === 0 ? value : new Map())
  const inner = fields.get(name)
  const isTwice = known !== undefined && (rest.length === 0 || typeof known === 'string')
  if (isTwice)
    throw new UsageError(`--where has two conditions on payload.${path.join('.')}. Pass one, as JSON with ':='.`)
  if (inner instanceof Map && rest.length > 0) add(inner, rest, value, path)
}

function textOf(fields: Fields): string {
  const members = Array.from(fields, ([name, value]) => {
    return `${JSON.stringify(name)}:${typeof value === 'string' ? value : textOf(value)}`
  })
  return `{${members.join()}}`
}
