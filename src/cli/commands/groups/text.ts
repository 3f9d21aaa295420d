import { failureWords, type GroupLifeView } from '../../../operate/internal.js'

import type { GroupRecord } from '../../../store/index.js'
import { type GroupLife, groupTitle } from '../../../store/internal.js'
import { withoutSecrets } from '../../../telemetry/index.js'
import { grouped } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { type Layout, NAME_WIDTH, oneLine, table } from '../../terminal/table.js'
import { moment, relative } from '../../terminal/times.js'

const COLUMNS = [
  { title: 'GROUP' },
  { title: 'KIND', minWidth: NAME_WIDTH, isName: true },
  { title: 'STATE', minWidth: 12, isName: true },
  { title: 'SEEN' },
  { title: 'RETRYING', isMinor: true },
  { title: 'DEAD' },
  { title: 'LAST' },
]

/** A table of failure groups, each with its code and its failure on a line of its own. */
export function groupTable(
  groups: readonly GroupRecord[],
  { width, paint }: Console,
  now: number,
  layout: Layout,
): string {
  const rows = groups.map(({ id, kind, code, seen, retrying, dead, lastSeenAt, life, ...facts }) => ({
    cells: [id, kind, stateText(life), grouped(seen), grouped(retrying), grouped(dead), ageText(lastSeenAt, now)],
    details: [oneLine(failureWords({ errorCode: code, errorMessage: groupTitle(facts) }), { width, indent: '  ' })],
  }))
  return table(COLUMNS, rows, { width, paint, layout })
}

/** A state in a word or two, for a list: `acked`, `fixed 1.8.0` */
function stateText(life: GroupLife): string {
  if (life.state === 'acknowledged') return 'acked'
  return life.state === 'fixed' && life.release !== undefined ? `fixed ${life.release}` : life.state
}

/** `3h ago`: in its largest unit, for a list. */
function ageText(at: number, now: number): string {
  return relative(at, now).replace(/ .+ ago$/, ' ago')
}

/** `fixed in 1.8.0, by ann 3h ago: found it`: the state of a group, and how it came there. */
export function lifeText(life: GroupLifeView, now: number): string {
  const { at, who, why } = life
  if (at === undefined) return life.state
  const reason = why === undefined ? '' : `: ${withoutSecrets(why)}`
  if (life.state === 'regressed') {
    const fixed = life.fixedIn === undefined ? 'fixed' : `fixed in ${life.fixedIn}`
    return `regressed ${relative(at, now)}, ${inRelease(life)}after ${who} had marked it as ${fixed}${reason}`
  }
  const what = life.state === 'fixed' ? fixedText(life) : life.state === 'ignored' ? ignoredText(life, now) : life.state
  return `${what}, by ${who} ${relative(at, now)}${reason}`
}

function fixedText({ release }: GroupLifeView): string {
  return release === undefined ? 'fixed' : `fixed in ${release}`
}

function inRelease({ release }: GroupLifeView): string {
  return release === undefined ? '' : `in ${release}, `
}

function ignoredText({ until: { at, count, perHour } = {}, seen = 0 }: GroupLifeView, now: number): string {
  const until = [
    ...(at === undefined ? [] : [moment(at, now)]),
    ...(count === undefined ? [] : [`it has failed ${grouped(seen + count)} times in all`]),
    ...(perHour === undefined ? [] : [`more than ${grouped(perHour)} an hour`]),
  ]
  return until.length === 0 ? 'ignored' : `ignored until ${until.join(' or ')}`
}

const BLOCKS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'] as const

/** `▁▁▂█`: a block for each number. Anything above 0 is higher than nothing. */
export function sparkline(values: readonly number[]): string {
  const max = Math.max(1, ...values)
  return values.map(value => BLOCKS[value === 0 ? 0 : Math.max(1, Math.ceil((value / max) * 8) - 1)]).join('')
}
