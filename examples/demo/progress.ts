import { setTimeout as delay } from 'node:timers/promises'
import type { Store, TaskStatus } from 'redrive/store'
import type { Tally } from './tally.js'
import { bar, painter } from './terminal.js'

/** How many tasks there are of each status. */
export type Counts = Readonly<Record<TaskStatus, number>>

const REDRAW_MS = 100
const LINE_EVERY_MS = 2000
const RATE_OVER_MS = 1000
const BAR_WIDTH = 28
/** A narrower terminal would break the lines of the block, and is given lines instead. */
const BLOCK_COLUMNS = 72

/**
 * Shows how far the tasks have come until none is left or the signal aborts: on a terminal as a block that is drawn again
 * and again, elsewhere as a line every other second. `before` is what had ended before.
 */
export async function showProgress(
  store: Store,
  before: Counts,
  tally: Tally,
  stream: NodeJS.WriteStream,
  signal: AbortSignal,
): Promise<void> {
  const paint = painter(stream)
  const startedAt = performance.now()
  const samples: { at: number; ended: number }[] = []
  let linesDrawn = 0
  let nextLineAt = 0

  for (let isOver = false; !isOver; ) {
    const now = performance.now()
    const counts = await store.count({})
    const since = (status: TaskStatus) => counts[status] - before[status]
    const ended = since('succeeded') + since('skipped') + since('dead') + since('cancelled')
    const open = counts.waiting + counts.running
    isOver = open === 0 || signal.aborted

    samples.push({ at: now, ended })
    while ((samples[0]?.at ?? now) < now - RATE_OVER_MS) samples.shift()
    const { at, ended: earlier } = isOver ? { at: startedAt, ended: 0 } : (samples[0] ?? { at: now, ended })
    const perSecond = now > at ? Math.round(((ended - earlier) * 1000) / (now - at)) : 0

    const retrying = Math.min(counts.waiting, tally.retrying.size)
    const figures = [
      ['waiting', counts.waiting - retrying, 'dim'],
      ['running', counts.running, 'cyan'],
      ['succeeded', since('succeeded'), 'green'],
      ['retrying', retrying, 'yellow'],
      ['dead', since('dead'), 'red'],
    ] as const

    if (stream.isTTY && (stream.columns || 80) >= BLOCK_COLUMNS) {
      const filled = bar(ended / (ended + open || 1), BAR_WIDTH)
      const held = (await store.lanes()).filter(({ heldUntil }) => heldUntil !== undefined)
      const lines = [
        `${paint('green', filled)}${paint('dim', '·'.repeat(BAR_WIDTH - filled.length))}  ${ended} of ${ended + open}  ${perSecond} tasks/s`,
        figures.map(([name, count, colour]) => `${paint(colour, name)} ${String(count).padEnd(6)}`).join(''),
        paint('dim', held.length === 0 ? '' : `held by a rate limit: ${held.map(({ key }) => key).join(', ')}`),
      ]
      if (linesDrawn > 0) stream.moveCursor(0, -linesDrawn)
      stream.cursorTo(0)
      stream.clearScreenDown()
      stream.write(`${lines.join('\n')}\n`)
      linesDrawn = lines.length
    } else if (now >= nextLineAt || isOver) {
      const words = figures.map(([name, count]) => `${count} ${name}`)
      stream.write(`${ended}/${ended + open}: ${[...words, `${perSecond} tasks/s`].join(', ')}\n`)
      nextLineAt = now + LINE_EVERY_MS
    }
    if (!isOver) await delay(REDRAW_MS, undefined, { signal }).catch(() => {})
  }
}
