// A call that throws twice and then succeeds, with no delay between its attempts.
import { contestants } from '../contestants/index.mjs'
import { interleave } from '../interleave.mjs'

const columns = [
  { key: 'cpuNs', head: 'ns per call', digits: 0 },
  { key: 'ratio', head: '× loop', digits: 2 },
]

/** Some wait for a timer of 1 ms where no delay was asked for, so that a lone call measures an idle event loop. */
const busy = await interleave(callers(), { inFlight: 100 })
const alone = await interleave(callers())

console.log(
  JSON.stringify([
    {
      title: 'Fails twice, without delay, 100 calls in flight',
      columns,
      rows: busy,
      target: { row: 'redrive', key: 'ratio', max: 1.5 },
    },
    { title: 'Fails twice, without delay, one call at a time', columns, rows: alone },
  ]),
)

function callers() {
  return contestants.map(({ name, immediate }) => {
    const caller = immediate()
    return { name, call: () => caller(failingTwice()) }
  })
}

function failingTwice() {
  let calls = 0
  return async () => {
    if (++calls < 3) throw new Error('not yet')
    return 1
  }
}
