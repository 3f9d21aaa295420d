// A call that succeeds at the first try: what everybody pays all the time.
import { contestants } from '../contestants/index.mjs'
import { interleave } from '../interleave.mjs'

const columns = [
  { key: 'cpuNs', head: 'ns per call', digits: 0 },
  { key: 'ratio', head: '× loop', digits: 2 },
]

// Before the others have run: what they make the engine forget about shared code, redrive pays for beside them.
const alone = await interleave(callers(contestants.filter(({ name }) => ['loop by hand', 'redrive'].includes(name))))
const rows = await interleave(callers(contestants))

console.log(
  JSON.stringify([
    {
      title: 'Success at the first try, beside the other libraries',
      columns,
      rows,
      target: { row: 'redrive', key: 'ratio', max: 1.5 },
    },
    {
      title: 'Success at the first try, alone with the loop',
      columns,
      rows: alone,
      target: { row: 'redrive', key: 'ratio', max: 1.2 },
    },
    {
      title: 'Success at the first try, with the policy written into the call',
      columns,
      rows: rows.filter(({ name }) => ['loop by hand', 'redrive, inline policy'].includes(name)),
      target: { row: 'redrive, inline policy', key: 'ratio', max: 1.5 },
    },
  ]),
)

function callers(list) {
  return list.map(({ name, immediate }) => {
    const caller = immediate()
    return { name, call: () => caller(async () => 1) }
  })
}
