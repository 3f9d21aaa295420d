import type { GroupRecord } from '../../store/index.js'
import { grouped } from '../terminal/chart.js'
import type { Console } from '../terminal/console.js'
import { type Layout, NAME_WIDTH, table } from '../terminal/table.js'
import { relative } from '../terminal/times.js'

const COLUMNS = [
  { title: 'GROUP', minWidth: NAME_WIDTH },
  { title: 'KIND', minWidth: NAME_WIDTH },
  { title: 'CODE', minWidth: NAME_WIDTH },
  { title: 'SEEN' },
  { title: 'RETRYING' },
  { title: 'DEAD' },
  { title: 'LAST' },
  { title: 'FAILURE', minWidth: 16 },
]

/** A table of failure groups. */
export function groupTable(
  groups: readonly GroupRecord[],
  { width, paint }: Console,
  now: number,
  layout: Layout,
): string {
  const rows = groups.map(({ id, kind, code, seen, retrying, dead, lastSeenAt, errorName, pattern }) => ({
    cells: [
      id,
      kind,
      code === '' ? '-' : code,
      grouped(seen),
      grouped(retrying),
      grouped(dead),
      relative(lastSeenAt, now),
      [errorName, pattern].filter(text => text !== '').join(': '),
    ],
  }))
  return table(COLUMNS, rows, { width, paint, layout })
}

const BLOCKS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'] as const

/** `▁▁▂█`: a block for each number. Anything above 0 is higher than nothing. */
export function sparkline(values: readonly number[]): string {
  const max = Math.max(1, ...values)
  return values.map(value => BLOCKS[value === 0 ? 0 : Math.max(1, Math.ceil((value / max) * 8) - 1)]).join('')
}
