// Failure groups on SQLite: what grouping costs a drain with failures. By CPU time of the process, which holds the database.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fingerprint } from '../../dist/fingerprint/fingerprint.js'
import { clearGarbage, cpuNs, median } from '../interleave.mjs'
import { drain, enqueue, open } from '../tasks/redrive.mjs'

const ROUNDS = 9
const TASKS = 5000
const EVERY = 5
/** Another text for each failure, so that every message is masked. */
const message = n => `order ${n} of customer 'c-${n}' not found: connect ECONNREFUSED 10.0.0.1:${n}`

/** A store to which settlements come without groups. */
function ungrouped(store) {
  const strip = settlement => {
    if (settlement.attempt?.group === undefined) return settlement
    const { group: _, ...attempt } = settlement.attempt
    return { ...settlement, attempt }
  }
  return new Proxy(store, {
    get(target, name) {
      if (name === 'settle') return settlements => target.settle(settlements.map(strip))
      const value = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

async function drained(wrap) {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
  const store = await open(join(folder, 'tasks.db'))
  try {
    await enqueue(store, TASKS)
    clearGarbage()
    return await cpuNs(() => drain(wrap(store), TASKS, EVERY, message))
  } finally {
    await store.close()
    rmSync(folder, { recursive: true })
  }
}

/** The fingerprints of a drain. Both contestants make them. */
const fingerprints = round =>
  cpuNs(() => {
    for (let n = 0; n < TASKS / EVERY; n++) {
      const error = `Error: ${message(n + round * TASKS)}`
      fingerprint({ kind: 'work', code: 'unknown', error })
    }
  })

const ratios = []
for (let round = 0; round <= ROUNDS; round++) {
  const [grouped, plain, made] = [await drained(store => store), await drained(ungrouped), await fingerprints(round)]
  if (round > 0) ratios.push(grouped / (plain - made))
}

console.log(
  JSON.stringify([
    {
      title: 'Drain of 5000 tasks, every fifth of which fails once, with failure groups',
      note: 'CPU time against the same drain without fingerprints, and without groups in the store.',
      columns: [{ key: 'times', head: '× without', digits: 2 }],
      rows: [{ name: 'redrive', times: median(ratios) }],
      target: { row: 'redrive', key: 'times', max: 1.1 },
    },
  ]),
)
