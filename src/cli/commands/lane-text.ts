import type { LaneView } from '../../operate/index.js'
import type { LaneLimits, SharedLimits } from '../../store/index.js'
import { grouped } from '../terminal/chart.js'
import type { Console, Paint } from '../terminal/console.js'
import { type Layout, NAME_WIDTH, table } from '../terminal/table.js'
import { relative } from '../terminal/times.js'

/** Lanes as a table. */
export function laneTable(lanes: readonly LaneView[], { width, paint }: Console, now: number, layout: Layout): string {
  const columns = [
    { title: 'KIND', minWidth: NAME_WIDTH },
    { title: 'CATEGORY', minWidth: NAME_WIDTH },
    { title: 'KEY', minWidth: NAME_WIDTH },
    { title: 'STATE' },
    { title: 'WAITING' },
    { title: 'RUNNING' },
    { title: 'DEAD' },
    { title: 'LIMITS', minWidth: NAME_WIDTH },
  ]
  const rows = lanes.map(lane => ({
    cells: [
      lane.kind,
      lane.category || '-',
      lane.key || '-',
      stateText(lane, now),
      ...[lane.waiting, lane.running, lane.dead].map(grouped),
      limitsText(lane),
    ],
    paints: [
      undefined,
      undefined,
      undefined,
      statePaint(lane, paint),
      undefined,
      undefined,
      lane.dead > 0 ? paint.red : undefined,
    ],
  }))
  return table(columns, rows, { width, paint, layout })
}

/** Limits in words: `5 at once, 10/s, ordered` */
export function limitText(limits: LaneLimits | SharedLimits): string {
  const rates = 'isShared' in limits ? Object.values(limits.rates ?? {}).map(({ perSecond }) => perSecond) : []
  const perSecond = 'isShared' in limits ? rates : limits.perSecond === undefined ? [] : [limits.perSecond]
  return [
    ...(limits.concurrency === undefined ? [] : [`${limits.concurrency} at once`]),
    ...perSecond.map(rate => `${Number(rate.toFixed(3))}/s`),
    ...('isOrdered' in limits && limits.isOrdered ? ['ordered'] : []),
  ].join(', ')
}

function limitsText({ limits, shared }: LaneView): string {
  const own = limitText(limits)
  if (shared === null) return own
  const pace = shared.pace === null ? '' : `, now ${Number(shared.pace.toFixed(1))}/s`
  return [own, `shared: ${limitText(shared.limits) || 'no limit'}${pace}`].filter(text => text !== '').join('; ')
}

function stateText({ state, heldUntil }: LaneView, now: number): string {
  return state === 'held' && heldUntil !== null ? `held, ends ${relative(heldUntil, now)}` : state
}

function statePaint({ state }: LaneView, paint: Paint): ((text: string) => string) | undefined {
  switch (state) {
    case 'open':
      return undefined
    case 'held':
      return paint.yellow
    case 'paused':
      return paint.cyan
  }
}
