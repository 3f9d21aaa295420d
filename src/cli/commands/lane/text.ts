import type { LaneView } from '../../../operate/index.js'
import type { PauseView } from '../../../operate/internal.js'
import type { LaneLimits } from '../../../store/index.js'
import type { Rate, SharedLimits } from '../../../store/internal.js'
import { withoutSecrets } from '../../../telemetry/index.js'
import { grouped } from '../../terminal/chart.js'
import type { Console, Paint } from '../../terminal/console.js'
import { type Layout, NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { moment, relative } from '../../terminal/times.js'

const COLUMNS = [
  { title: 'KIND', minWidth: NAME_WIDTH, isName: true },
  { title: 'CATEGORY', minWidth: NAME_WIDTH, isName: true },
  { title: 'KEY', minWidth: NAME_WIDTH, isName: true },
  { title: 'STATE' },
  { title: 'WAITING', isMinor: true },
  { title: 'RUNNING', isMinor: true },
  { title: 'DEAD', isMinor: true },
]

/** Lanes as a table, each with the reason for its state and its limits on lines of their own. */
export function laneTable(lanes: readonly LaneView[], { width, paint }: Console, now: number, layout: Layout): string {
  const rows = lanes.map(lane => ({
    cells: [
      lane.kind,
      nameText(lane.category),
      nameText(lane.key),
      isBehindHead(lane) ? 'waits' : lane.state,
      ...[lane.waiting, lane.running, lane.dead].map(grouped),
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
    details: [stateReason(lane, now), limitsText(lane, now)].flatMap(text => paragraph(text, { width, indent: '  ' })),
  }))
  return table(COLUMNS, rows, { width, paint, layout })
}

/** Whether nothing holds for the lanes of a rule: its limits were removed. */
export function isIdleRule(lane: LaneView): boolean {
  return lane.isRule && lane.pause === null && limitsText(lane, 0) === ''
}

/** Limits in words: `5 at once, 10/s, ordered`, or `5 at once, requests 500/m` if they are shared. */
export function limitText(limits: LaneLimits | SharedLimits): string {
  const own = 'isShared' in limits || limits.perSecond === undefined ? [] : [rateText(limits.perSecond)]
  return [
    ...(limits.concurrency === undefined ? [] : [`${limits.concurrency} at once`]),
    ...('isShared' in limits ? bucketTexts(limits.rates ?? {}) : own),
    ...('isOrdered' in limits && limits.isOrdered ? ['ordered'] : []),
    ...('onDead' in limits && limits.onDead === 'block' ? ['stops at dead letters'] : []),
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

function limitsText({ limits, shared, limitedBy }: LaneView, now: number): string {
  const pace = shared?.pace ?? null
  const together = [
    shared === null ? '' : limitText(shared.limits),
    pace === null ? '' : `now ${Number(pace.toFixed(1))}/s`,
  ].filter(text => text !== '')
  const quota = shared?.quota ?? null
  const whose = quota === null ? (shared?.limits.isPerQuota ? 'each quota' : 'shared') : `quota ${quota}`
  const ofQuota = quota === null || together.length > 0 ? [] : [whose]
  const text = [limitText(limits), ...ofQuota, ...(together.length === 0 ? [] : [`${whose}: ${together.join(', ')}`])]
    .filter(text => text !== '')
    .join('; ')
  return text === '' || limitedBy === null ? text : `${text}, set${byText(limitedBy, 'at', now)}`
}

/** A rule for lanes that do not exist yet may hold for any name. */
function nameText(name: string | null): string {
  return name === null ? 'any' : name || '-'
}

/** Whether an ordered lane waits for the next attempt of its first task. */
function isBehindHead({ state, heldBy, limits }: LaneView): boolean {
  return state === 'held' && heldBy !== null && limits.isOrdered === true
}

/** Why the tasks of a lane do not start, and until when; empty if they may. */
function stateReason(lane: LaneView, now: number): string {
  const { state, heldUntil, heldBy, pause, gate } = lane
  switch (state) {
    case 'open':
      return ''
    case 'paused':
      return pause === null ? '' : pauseText(pause, now)
    case 'gated':
      if (gate?.state === 'spent' && gate.until !== null) return `spent, until ${relative(gate.until, now)}`
      return gate?.state === 'open' && gate.until !== null ? `probes ${relative(gate.until, now)}` : 'probing'
    case 'blocked':
      return `stops at the dead letter ${lane.blockedBy}, until that is redriven or discarded`
    case 'held': {
      const end = relative(heldUntil ?? now, now)
      if (isBehindHead(lane)) return `waits for ${heldBy}, which is tried again ${end}`
      return `ends ${end}${heldBy === null ? '' : `: a rate limit refused ${heldBy}`}`
    }
  }
}

/** `paused by ada since 2026-07-30 10:00:00Z (3h ago): the mail server is down`, as far as it is on record. */
function pauseText(pause: PauseView, now: number): string {
  const text = byText(pause, 'since', now)
  return text === '' ? '' : `paused${text}`
}

function byText({ who, why, at }: PauseView, when: 'at' | 'since', now: number): string {
  const by = who === null ? '' : ` by ${who}`
  const time = at === null ? '' : ` ${when} ${moment(at, now)}`
  const reason = why === null ? '' : `: ${withoutSecrets(why)}`
  return `${by}${time}${reason}`
}

function statePaint({ state }: LaneView, paint: Paint): ((text: string) => string) | undefined {
  switch (state) {
    case 'open':
      return undefined
    case 'gated':
    case 'blocked':
    case 'held':
      return paint.yellow
    case 'paused':
      return paint.cyan
  }
}
