// A call that succeeds at the first try: what everybody pays all the time.
import { contestants } from '../contestants/index.mjs'
import * as loop from '../contestants/loop.mjs'
import * as redriveInline from '../contestants/redrive-inline.mjs'
import { interleave } from '../interleave.mjs'

const columns = [
  { key: 'cpuNs', head: 'ns per call', digits: 0 },
  { key: 'ratio', head: '× loop', digits: 2 },
]

// Before the others have run: what they make the engine forget about shared code, redrive pays for beside them.
const alone = await interleave(callers(contestants.filter(({ name }) => ['loop by hand', 'redrive'].includes(name))))
const rows = await interleave(callers(contestants))
const written = await interleave([
  { name: 'loop by hand', call: ofThe(loop.immediate()) },
  { name: 'loop by hand, timeout', call: ofThe(loop.withTimeout()) },
  { name: 'redrive', call: ofThe(redriveInline.readme()) },
])
const { cpuNs: limitNs } = written.find(({ name }) => name === 'loop by hand, timeout')
for (const row of written) row.toTimeout = row.cpuNs / limitNs

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
    {
      title: "README's first example as it is written, success at the first try",
      note: 'Its policy, which is written into the call, has a timeout.',
      columns: [...columns, { key: 'toTimeout', head: '× loop with timeout', digits: 2 }],
      rows: written,
      target: { row: 'redrive', key: 'toTimeout', max: 1.5 },
    },
  ]),
)

function callers(list) {
  return list.map(({ name, immediate }) => ({ name, call: ofThe(immediate()) }))
}

function ofThe(caller) {
  return () => caller(async () => 1)
}
