import type { LaneView } from '../../operate/index.js'
import type { LaneLimits, Rate, SharedLimits } from '../../store/index.js'
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
      nameText(lane.category),
      nameText(lane.key),
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

/** Limits in words: `5 at once, 10/s, ordered`, or `5 at once, requests 500/m` if they are shared. */
export function limitText(limits: LaneLimits | SharedLimits): string {
  const own = 'isShared' in limits || limits.perSecond === undefined ? [] : [rateText(limits.perSecond)]
  return [
    ...(limits.concurrency === undefined ? [] : [`${limits.concurrency} at once`]),
    ...('isShared' in limits ? bucketTexts(limits.rates ?? {}) : own),
    ...('isOrdered' in limits && limits.isOrdered ? ['ordered'] : []),
  ].join(', ')
}

/** Rates by bucket: `requests 500/m` */
export function bucketTexts(rates: Readonly<Record<string, Rate>>): string[] {
  return Object.entries(rates).map(([bucket, { perSecond }]) => `${bucket} ${rateText(perSecond)}`)
}

/** A rate in the unit that makes it a whole number, as it was probably given: `500/m` */
export function rateText(perSecond: number): string {
  const inUnits = [
    [perSecond, 's'],
    [perSecond * 60, 'm'],
    [perSecond * 3600, 'h'],
  ] as const
  const isWhole = (rate: number) => rate > 0.5 && Math.abs(rate - Math.round(rate)) < 1e-6
  const [rate, unit] = inUnits.find(([rate]) => isWhole(rate)) ?? inUnits.find(([rate]) => rate >= 1) ?? inUnits[2]
  return `${Number(rate.toFixed(3))}/${unit}`
}

function limitsText({ limits, shared }: LaneView): string {
  const own = limitText(limits)
  if (shared === null) return own
  const pace = shared.pace === null ? '' : `, now ${Number(shared.pace.toFixed(1))}/s`
  return [own, `shared: ${limitText(shared.limits) || 'no limit'}${pace}`].filter(text => text !== '').join('; ')
}

/** A rule for lanes that do not exist yet may hold for any name. */
function nameText(name: string | null): string {
  return name === null ? 'any' : name || '-'
}

function stateText({ state, heldUntil, pause, gate }: LaneView, now: number): string {
  if (state === 'held' && heldUntil !== null) return `held, ends ${relative(heldUntil, now)}`
  if (state === 'gated' && gate !== null) {
    return gate.state === 'open' && gate.until !== null
      ? `gated, probes ${relative(gate.until, now)}`
      : 'gated, probing'
  }
  return pause?.who ? `paused by ${pause.who}` : state
}

function statePaint({ state }: LaneView, paint: Paint): ((text: string) => string) | undefined {
  switch (state) {
    case 'open':
      return undefined
    case 'gated':
    case 'held':
      return paint.yellow
    case 'paused':
      return paint.cyan
  }
}
