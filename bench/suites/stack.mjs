// All that a careful caller puts around a call, and the call succeeds at the first try.
import { contestants } from '../contestants/index.mjs'
import { interleave } from '../interleave.mjs'

const [loop, ...others] = contestants
const withTimeout = 'loop by hand, timeout'
const rows = await interleave([
  contestant(loop.name, loop.immediate(), 'retry alone'),
  contestant(withTimeout, loop.withTimeout(), 'no breaker, no budget, no listener'),
  ...others
    .filter(({ stack }) => stack !== undefined)
    .map(({ name, stack, stackNote }) => contestant(name, stack(), stackNote)),
])

const { cpuNs: limitNs } = rows.find(({ name }) => name === withTimeout)
for (const row of rows) row.toTimeout = row.cpuNs / limitNs

console.log(
  JSON.stringify([
    {
      title: 'The whole stack (retry, timeout per attempt, breaker, budget, a listener), success at the first try',
      columns: [
        { key: 'cpuNs', head: 'ns per call', digits: 0 },
        { key: 'ratio', head: '× loop', digits: 2 },
        { key: 'toTimeout', head: '× loop with timeout', digits: 2 },
      ],
      rows,
      target: { row: 'redrive', key: 'toTimeout', max: 1.1 },
    },
  ]),
)

function contestant(name, caller, note) {
  return { name, note, call: () => caller(async () => 1) }
}
