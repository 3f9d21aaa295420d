// A call that throws twice and then succeeds, with no delay between its attempts.
import { contestants } from '../contestants/index.mjs'
import { interleave } from '../interleave.mjs'

const columns = [
  { key: 'cpuNs', head: 'ns per call', digits: 0 },
  { key: 'ratio', head: '× loop', digits: 2 },
]

const failure = new Error('not yet')

/** Some wait for a timer of 1 ms where no delay was asked for, so that a lone call measures an idle event loop. */
const busy = await interleave(callers(failingTwice), { inFlight: 100 })
const alone = await interleave(callers(failingTwice))
/** Without a stack to capture, which takes most of the time above. */
const shared = await interleave(callers(failingAlike), { inFlight: 1000 })

console.log(
  JSON.stringify([
    {
      title: 'Fails twice, without delay, 100 calls in flight',
      columns,
      rows: busy,
      target: { row: 'redrive', key: 'ratio', max: 1.2 },
    },
    {
      title: 'Fails twice, without delay, one call at a time',
      columns,
      rows: alone,
      target: { row: 'redrive', key: 'ratio', max: 1.2 },
    },
    {
      title: 'Fails twice with one shared error, without delay, 1000 calls in flight',
      columns,
      rows: shared,
      target: { row: 'redrive', key: 'ratio', max: 2 },
    },
  ]),
)

function callers(failing) {
  return contestants.map(({ name, immediate }) => {
    const caller = immediate()
    return { name, call: () => caller(failing()) }
  })
}

function failingTwice() {
  let calls = 0
  return async () => {
    if (++calls < 3) throw new Error('not yet')
    return 1
  }
}

function failingAlike() {
  let calls = 0
  return async () => {
    if (++calls < 3) throw failure
    return 1
  }
}
