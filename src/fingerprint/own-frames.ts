/** Two frames tell one bug from another. More of them would tell apart the ways that lead to it. */
const MAX_FRAMES = 2
/** No stack on record has more lines. */
const MAX_LINES = 20
const MAX_FRAME = 500
/** Errors of the language and of assertions: bugs, which one message may hide in many places. */
const BUG = /^(?:Type|Reference|Range|Syntax|Assertion|Eval|URI)Error\b/
const POSITION = /(?::\d{1,9}){1,2}$/
const FOREIGN = /^node:|node_modules[\\/]|^<anonymous>$|^native$/

/** Whether errors of this class are bugs. */
export function isBug(className: string): boolean {
  return BUG.test(className)
}

/**
 * The frames of a recorded stack that are the user's own, nearest first: `function file`, without line numbers, which move
 * with every edit above them.
 */
export function ownFrames(stack: string): string[] {
  const frames: string[] = []
  for (const line of stack.split('\n', MAX_LINES)) {
    const frame = line.trim().slice(0, MAX_FRAME)
    if (!frame.startsWith('at ')) continue
    const open = frame.endsWith(')') ? frame.lastIndexOf(' (') : -1
    const place = open === -1 ? frame.slice('at '.length) : frame.slice(open + 2, -1)
    const file = place.replace(POSITION, '')
    if (FOREIGN.test(file)) continue
    frames.push(open === -1 ? file : `${frame.slice('at '.length, open)} ${file}`)
    if (frames.length === MAX_FRAMES) break
  }
  return frames
}
