import type { Expectation, TrialEstimate } from '../../../operate/internal.js'
import { formatDuration } from '../../../policy/index.js'
import { grouped, percent } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { fields } from '../../terminal/table.js'

/** Puts the estimate of a trial into words. */
export function estimateText(
  estimate: TrialEstimate,
  isRandom: boolean,
  { messageWidth, messagePaint }: Console,
): string {
  const { sampled, total, dead, deadRate, calls, retries, durationMs, isPaced } = estimate
  const which = isRandom
    ? `${grouped(sampled)} of ${grouped(total)} lines, drawn at random`
    : `the first ${grouped(sampled)} lines; they are no random sample, and the rest may differ. Figures per ${grouped(total)} items`
  const time = formatDuration(durationMs < 60_000 ? Math.max(1, durationMs) : Math.round(durationMs / 1000) * 1000)
  return [
    messagePaint.bold(`Trial: ${which}.`),
    fields(
      [
        ['dead letters', `${range(dead)}, ${percent(deadRate.low)} to ${percent(deadRate.high)}`],
        ['calls', range(calls)],
        ['retries', range(retries)],
        ['time', isPaced ? `about ${time}, at the rate that is set` : `about ${time}; more if the service throttles`],
      ],
      { width: messageWidth, paint: messagePaint },
    ),
  ].join('\n')
}

/** With 95 % confidence. */
function range({ expected, low, high }: Expectation): string {
  return `about ${grouped(expected)} (${grouped(low)} to ${grouped(high)})`
}
