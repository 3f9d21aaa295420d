import { setTimeout as delay } from 'node:timers/promises'
import type { LaneRecord, Store, TaskStatus } from 'redrive/store'
import type { Tally } from './tally.js'
import { bar, type Paint, painter } from './terminal.js'

/** How many tasks there are of each status. */
export type Counts = Readonly<Record<TaskStatus, number>>

const REDRAW_MS = 100
const LINE_EVERY_MS = 2000
const RATE_OVER_MS = 1000
const BAR_WIDTH = 28
/** A narrower terminal would break the lines of the block, and is given lines instead. */
const BLOCK_COLUMNS = 72

/** How far the tasks have come. */
interface Progress {
  readonly ended: number
  readonly open: number
  readonly perSecond: number
  readonly figures: readonly (readonly [name: string, count: number, colour: Parameters<Paint>[0]])[]
}

/**
 * Shows progress until no task is left or the signal aborts: on a terminal as a block that is redrawn, elsewhere as a
 * line every other second. `before` holds the counts at the start.
 */
export async function showProgress(
  store: Store,
  before: Counts,
  tally: Tally,
  stream: NodeJS.WriteStream,
  signal: AbortSignal,
): Promise<void> {
  const rate = rateMeter()
  const drawBlock = blockDrawer(stream)
  let nextLineAt = 0

  for (let isOver = false; !isOver; ) {
    const now = performance.now()
    const counts = await store.count({})
    const since = (status: TaskStatus) => counts[status] - before[status]
    const ended = since('succeeded') + since('skipped') + since('dead') + since('cancelled')
    const open = counts.waiting + counts.running
    isOver = open === 0 || signal.aborted

    const retrying = Math.min(counts.waiting, tally.retrying.size)
    const progress: Progress = {
      ended,
      open,
      perSecond: rate(now, ended, isOver),
      figures: [
        ['waiting', counts.waiting - retrying, 'dim'],
        ['running', counts.running, 'cyan'],
        ['succeeded', since('succeeded'), 'green'],
        ['retrying', retrying, 'yellow'],
        ['dead', since('dead'), 'red'],
      ],
    }
    if (stream.isTTY && (stream.columns || 80) >= BLOCK_COLUMNS) {
      drawBlock(progress, await store.lanes())
    } else if (now >= nextLineAt || isOver) {
      stream.write(asLine(progress))
      nextLineAt = now + LINE_EVERY_MS
    }
    if (!isOver) await delay(REDRAW_MS, undefined, { signal }).catch(() => {})
  }
}

/** Measures tasks per second: over the last second while work goes on, over the whole time once it is over. */
function rateMeter(): (now: number, ended: number, isOver: boolean) => number {
  const start = { at: performance.now(), ended: 0 }
  const samples: { at: number; ended: number }[] = []
  return (now, ended, isOver) => {
    samples.push({ at: now, ended })
    while ((samples[0]?.at ?? now) < now - RATE_OVER_MS) samples.shift()
    const from = isOver ? start : (samples[0] ?? start)
    return now > from.at ? Math.round(((ended - from.ended) * 1000) / (now - from.at)) : 0
  }
}

/** Draws the progress over what it drew before. */
function blockDrawer(stream: NodeJS.WriteStream): (progress: Progress, lanes: readonly LaneRecord[]) => void {
  const paint = painter(stream)
  let linesDrawn = 0
  return ({ ended, open, perSecond, figures }, lanes) => {
    const filled = bar(ended / (ended + open || 1), BAR_WIDTH)
    const held = lanes.filter(({ heldUntil }) => heldUntil !== undefined).map(({ key }) => key)
    const lines = [
      `${paint('green', filled)}${paint('dim', '·'.repeat(BAR_WIDTH - filled.length))}  ${ended} of ${ended + open}  ${perSecond} tasks/s`,
      figures.map(([name, count, colour]) => `${paint(colour, name)} ${String(count).padEnd(6)}`).join(''),
      paint('dim', held.length === 0 ? '' : `held by a rate limit: ${held.join(', ')}`),
    ]
    if (linesDrawn > 0) stream.moveCursor(0, -linesDrawn)
    stream.cursorTo(0)
    stream.clearScreenDown()
    stream.write(`${lines.join('\n')}\n`)
    linesDrawn = lines.length
  }
}

function asLine({ ended, open, perSecond, figures }: Progress): string {
  const words = figures.map(([name, count]) => `${count} ${name}`)
  return `${ended}/${ended + open}: ${[...words, `${perSecond} tasks/s`].join(', ')}\n`
}
