/** Two frames tell one bug from another. More of them would tell apart the ways that lead to it. */
const MAX_FRAMES = 2
/** No stack on record has more lines. */
const MAX_LINES = 20
const MAX_FRAME = 500
/**
 * Errors of the language and of assertions: bugs, which one message may hide in many places. But `fetch` throws a TypeError
 * where the network fails, too.
 */
const BUG = /^(?!TypeError: fetch failed\b)(?:Type|Reference|Range|Syntax|Assertion|Eval|URI)Error\b/
const POSITION = /(?::\d{1,9}){1,2}$/
const BUILT_IN = /^<anonymous>$|^native$/
const FOREIGN = /^node:|node_modules[\\/]/

/** Whether a recorded error, or its class alone, is a bug. */
export function isBug(error: string): boolean {
  return BUG.test(error)
}

/**
 * The frames of a recorded stack that are the user's own, nearest first: `function file`, without line numbers, which move
 * with every edit above them.
 */
export function ownFrames(stack: string): string[] {
  const frames: string[] = []
  for (const { name, file } of framesOf(stack)) {
    if (FOREIGN.test(file)) continue
    frames.push(name === undefined ? file : `${name} ${file}`)
    if (frames.length === MAX_FRAMES) break
  }
  return frames
}

/** The place that threw, as `file:line:column`, if it is in the user's own code and not in a package or in Node. */
export function ownPlace(stack: string): string | undefined {
  for (const { place, file } of framesOf(stack)) return FOREIGN.test(file) ? undefined : place
  return undefined
}

interface Frame {
  readonly name: string | undefined
  /** The file with its position. */
  readonly place: string
  readonly file: string
}

/** The frames of a recorded stack, nearest first, without those of built-in functions such as `JSON.parse`. */
function* framesOf(stack: string): Generator<Frame> {
  for (const line of stack.split('\n', MAX_LINES)) {
    const frame = line.trim().slice(0, MAX_FRAME)
    if (!frame.startsWith('at ')) continue
    const open = frame.endsWith(')') ? frame.lastIndexOf(' (') : -1
    const place = open === -1 ? frame.slice('at '.length) : frame.slice(open + 2, -1)
    const file = place.replace(POSITION, '')
    if (BUILT_IN.test(file)) continue
    yield { name: open === -1 ? undefined : frame.slice('at '.length, open), place, file }
  }
}
