// A pipeline on an API that throttles, with no rate configured, beside the backoff that people write by hand.
import { openFile } from '../pipelines/redrive.mjs'
import { isShort } from '../pipelines/short.mjs'
import { withFile } from '../pipelines/sqlite-rounds.mjs'
import * as throttled from '../pipelines/throttled.mjs'
import { startApi } from '../pipelines/throttling-api.mjs'

const PER_SECOND = 100
const REQUESTS = isShort ? 1000 : 4000

/** On a fresh API each, whose bucket is full. */
async function measure(name, run) {
  console.error(`  ${name}`)
  const api = await startApi({ perSecond: PER_SECOND, burst: PER_SECOND })
  try {
    const seconds = await withFile(openFile, store => run(store, REQUESTS, api.url))
    const { allowed, refused } = await api.counts()
    return { name, rate: REQUESTS / seconds, refused: (100 * refused) / (allowed + refused) }
  } finally {
    await api.close()
  }
}

const rows = [await measure('redrive', throttled.run), await measure('backoff by hand, per item', throttled.runNaively)]
const rate = { key: 'rate', head: 'completed per second', digits: 1 }
const refused = { key: 'refused', head: '% refused', digits: 1 }
const title = `${REQUESTS} calls of an API that allows ${PER_SECOND} a second, 50 in flight`
const note = 'Requests take 100 ms. The bucket holds one second’s worth, and a refusal says Retry-After: 1.'
console.log(
  JSON.stringify([
    { title, note, columns: [rate, refused], rows, target: { row: 'redrive', key: 'refused', max: 5 } },
    { title: 'The same: completed', columns: [rate], rows, target: { row: 'redrive', key: 'rate', min: 85 } },
  ]),
)
