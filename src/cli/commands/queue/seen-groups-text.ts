import type { SeenGroups } from '../../../operate/index.js'
import { groupTitle } from '../../../store/internal.js'
import { grouped } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { type OutputFormat, writeList } from '../../terminal/output.js'
import { NAME_WIDTH, table } from '../../terminal/table.js'
import { timestamp } from '../../terminal/times.js'

const COLUMNS = [
  { title: 'COUNT' },
  { title: 'KIND', minWidth: NAME_WIDTH },
  { title: 'CODE', minWidth: NAME_WIDTH },
  { title: 'FAILURE', minWidth: 16 },
  { title: 'EXAMPLE', minWidth: NAME_WIDTH },
]

/** Prints groups as of one look. `total` is how many there were to look at. */
export function printSeenGroups(
  console: Console,
  output: OutputFormat,
  { asOf, looked, copies, groups }: SeenGroups,
  total: number,
): void {
  const views = groups.map(group => ({ ...group, asOf }))
  writeList(console, output, views, () => {
    const rows = groups.map(({ count, kind, code, examples, ...facts }) => ({
      cells: [
        grouped(count),
        kind,
        code === '' ? '-' : code,
        groupTitle(facts) || '(no error on record)',
        examples[0] ?? '-',
      ],
    }))
    return table(COLUMNS, rows, console)
  })
  const count = groups.length === 1 ? '1 group' : `${grouped(groups.length)} groups`
  const part = looked < total ? ` For all of them, pass --limit ${total}.` : ''
  const twice = copies === 0 ? '' : ` ${grouped(copies)} of them are second copies, and are not counted.`
  console.say(`As of ${timestamp(asOf)}: ${count} of ${grouped(looked)} of ${grouped(total)}.${twice}${part}`)
}
