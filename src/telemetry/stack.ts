import { sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { redact } from './redact.js'

/** More frames than this say little, and the ledger keeps those of every failure. */
const MAX_FRAMES = 10
/** The part of a stack that is looked at. */
const MAX_TEXT = 20_000

/** The code of this package. Its frames say nothing about the failure. */
const OWN = fileURLToPath(new URL('..', import.meta.url))

const FRAME = /^\s*at (?:(.*?) \()?(.+?)(:\d+:\d+)?\)?$/

/** Reading a stack costs about as much as settling a task. Where everything fails at once, this many a second will do. */
const MAX_PER_SECOND = 100
let second = 0
let read = 0

/** Stacks that were seen last, as they came and as they are kept: work that fails does so in few places. */
const seen = new Map<string, string>()
const MAX_SEEN = 100

/**
 * The stack of a failure in a form that is safe to store: a line for each frame, without the message, without secrets, with
 * at most ten frames, none of them inside Node or this package. Files are relative to the working directory, or to
 * `node_modules`. `undefined` if nothing is left of it.
 */
export function failureStack(failure: unknown): string | undefined {
  const frames = framesOf(failure)
  if (frames === undefined) return undefined
  const known = seen.get(frames)
  if (known !== undefined) return known || undefined
  const kept = frames
    .split('\n')
    .map(frameText)
    .filter(frame => frame !== '')
    .slice(0, MAX_FRAMES)
    .join('\n')
  if (seen.size >= MAX_SEEN) seen.clear()
  seen.set(frames, kept)
  return kept || undefined
}

/** Whether stacks are read so often that another one can be left out. */
export function areStacksFrequent(): boolean {
  const now = Math.floor(performance.now() / 1000)
  if (now !== second) {
    second = now
    read = 0
  }
  return ++read > MAX_PER_SECOND
}

/** The lines after the message. Reading a stack formats it, and may run code of the failure's own. */
function framesOf(failure: unknown): string | undefined {
  try {
    const stack: unknown = failure instanceof Error ? failure.stack : undefined
    if (typeof stack !== 'string') return undefined
    const start = stack.search(/\n\s+at /)
    return start === -1 ? undefined : stack.slice(start + 1, start + 1 + MAX_TEXT)
  } catch {
    return undefined
  }
}

/** A frame as it is kept; empty for one that is left out. */
function frameText(line: string): string {
  const [, name, place = '', position = ''] = FRAME.exec(line) ?? []
  if (place === '' || /^node:internal|^eval at/.test(place)) return ''
  const path = place.startsWith('file://') ? pathOf(place) : place
  if (path.startsWith(OWN)) return ''
  // The position stays out of it: `token.ts:10` looks like a secret.
  const file = redact(relativePath(path)) + position
  return name === undefined ? `at ${file}` : `at ${redact(name)} (${file})`
}

function pathOf(url: string): string {
  try {
    return fileURLToPath(url)
  } catch {
    return url
  }
}

function relativePath(path: string): string {
  const here = process.cwd() + sep
  if (path.startsWith(here)) return path.slice(here.length)
  const packages = path.lastIndexOf(`${sep}node_modules${sep}`)
  if (packages !== -1) return path.slice(packages + 1)
  // The rest of the path may name a person.
  return path.startsWith(sep) ? `…${sep}${path.split(sep).slice(-2).join(sep)}` : path
}
