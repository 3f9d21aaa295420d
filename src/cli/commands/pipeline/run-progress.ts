import type { Snapshot } from '../../../pipeline/index.js'
import { formatDuration } from '../../../policy/index.js'
import { grouped, percent, track } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import type { LiveLine } from '../../terminal/live-line.js'
import { clip, textWidth } from '../../terminal/text-width.js'

const BAR_WIDTH = 20

/**
 * Where a run stands, in one line: with a bar if it is live, and plain for a log. `expected` is the number of all its items, if
 * it is known before they are read.
 */
export function progressText(
  snapshot: Snapshot,
  expected: number | undefined,
  { isLive, messageWidth }: Pick<LiveLine, 'isLive'> & Pick<Console, 'messageWidth'>,
): string {
  const { ended, perSecond, retries, deferrals, counts } = snapshot
  const total = snapshot.isRead ? snapshot.total : expected
  const leftMs = total === undefined || perSecond === 0 ? undefined : ((total - ended) / perSecond) * 1000
  const parts = [
    total === undefined ? undefined : shareText(ended, total, isLive),
    total === undefined ? `${grouped(ended)} ended` : `${grouped(ended)} of ${grouped(total)}`,
    perSecond === 0 ? undefined : `${rounded(perSecond)}/s`,
    leftMs === undefined || ended === total ? undefined : `${formatDuration(Math.ceil(leftMs / 1000) * 1000)} left`,
    retries === 0 ? undefined : `${grouped(retries)} retries`,
    deferrals === 0 ? undefined : `${grouped(deferrals)} deferred`,
    `${grouped(counts.dead)} dead`,
    snapshot.status === 'running' ? undefined : snapshot.status,
  ]
  const text = parts.filter(part => part !== undefined).join(isLive ? '  ' : ', ')
  return textWidth(text) < messageWidth ? text : clip(text, messageWidth - 1)
}

function shareText(ended: number, total: number, isLive: boolean): string {
  const share = total === 0 ? 1 : Math.min(1, ended / total)
  return isLive ? `${track(share, BAR_WIDTH)} ${percent(share)}` : percent(share)
}

function rounded(perSecond: number): string {
  return perSecond >= 10 ? grouped(perSecond) : String(Number(perSecond.toPrecision(2)))
}
