import { bar, painter } from '../demo/terminal.js'
import type { Tally } from './tally.js'

const BAR_WIDTH = 16
const REDRAW_MS = 80

/**
 * Shows how far the calls have come: on a terminal as one line that is drawn again and again, elsewhere as a line for
 * every tenth of the way. Returns the function that ends it.
 */
export function showProgress(tally: Tally, total: number, stream: NodeJS.WriteStream): () => void {
  const paint = painter(stream)
  const startedAt = performance.now()
  let tenthsShown = 0

  function draw(): void {
    const done = tally.count('succeeded') + tally.count('gave_up')
    const perSecond = Math.round((done * 1000) / (performance.now() - startedAt))
    const figures = [
      `${String(done).padStart(String(total).length)}/${total}`,
      `${tally.count('running')} running`.padStart(10),
      `${tally.count('waiting')} waiting to retry`.padStart(19),
      `${perSecond} calls/s`.padStart(11),
    ].join('  ')

    if (stream.isTTY) {
      const columns = stream.columns || 80
      const filled = bar(done / total, BAR_WIDTH)
      const rest = '·'.repeat(BAR_WIDTH - filled.length)
      const line = `${paint('green', filled)}${paint('dim', rest)}  ${figures}`
      stream.cursorTo(0)
      stream.write(columns < 80 ? figures.slice(0, columns - 1) : line)
      stream.clearLine(1)
    } else if (Math.floor((done * 10) / total) > tenthsShown) {
      tenthsShown = Math.floor((done * 10) / total)
      stream.write(`${figures}\n`)
    }
  }

  draw()
  const timer = setInterval(draw, REDRAW_MS)
  return () => {
    clearInterval(timer)
    draw()
    if (stream.isTTY) stream.write('\n')
  }
}
