// The fingerprint of a failure: what every failed attempt pays for being grouped.
import { readFileSync } from 'node:fs'
import { fingerprint } from '../../dist/fingerprint/fingerprint.js'
import { maskMessage } from '../../dist/fingerprint/mask-message.js'
import { clearGarbage, cpuNs, median } from '../interleave.mjs'

const ROUNDS = 21
const LETTERS = 100_000

const file = new URL('../../test/fixtures/failures/everyday.txt', import.meta.url)
/** Three errors of each pattern, each a text of its own in memory, as it comes from a store. */
const errors = readFileSync(file, 'utf8')
  .split('\n')
  .filter(line => line !== '' && !line.startsWith('#'))
  .flatMap(line => [0, 1, 2].map(choice => line.replace(/⟦(.*?)⟧/g, (_, varying) => varying.split('|')[choice])))
  .map(error => Buffer.from(error).toString())
const messages = errors.map(error => Buffer.from(error.slice(error.indexOf(': ') + 2)).toString())

const rows = [
  { name: 'maskMessage', us: await usPerCall(messages, maskMessage) },
  { name: 'fingerprint, another text each time', us: await usPerFingerprint() },
  { name: 'fingerprint, of a text that came before', us: await usPerCall(errors, printOf) },
]
const seconds = (await cpuNs(() => group(LETTERS))) / 1e9

console.log(
  JSON.stringify([
    {
      title: 'The fingerprint of a failure',
      note: `On average over ${errors.length} everyday errors.`,
      columns: [{ key: 'us', head: 'µs', digits: 2 }],
      rows,
      target: { row: 'maskMessage', key: 'us', max: 5 },
    },
    {
      title: '100 000 dead letters grouped from scratch',
      columns: [{ key: 'seconds', head: 'seconds of CPU', digits: 2 }],
      rows: [{ name: 'redrive', seconds }],
      target: { row: 'redrive', key: 'seconds', max: 2 },
    },
  ]),
)

async function usPerCall(texts, call) {
  const all = () => texts.forEach(text => void call(text))
  for (let i = 0; i < 50; i++) all()
  const costs = []
  for (let round = 0; round < ROUNDS; round++) {
    clearGarbage()
    costs.push((await cpuNs(() => Array.from({ length: 20 }, all))) / 20 / texts.length / 1000)
  }
  return median(costs)
}

function printOf(error) {
  return fingerprint({ kind: 'mail', code: 'E', error })
}

/** Texts are made before the clock runs. */
async function usPerFingerprint() {
  const costs = []
  for (let round = 0; round < ROUNDS; round++) {
    const texts = Array.from({ length: 20 }, (_, n) =>
      errors.map(error => Buffer.from(`${error} ${round}${n}`).toString()),
    ).flat()
    clearGarbage()
    costs.push((await cpuNs(() => texts.forEach(text => void printOf(text)))) / texts.length / 1000)
  }
  return median(costs)
}

/** Counts letters by group. Each has another number in its text, so that no two are the same. */
function group(letters) {
  const counts = new Map()
  for (let i = 0; i < letters; i++) {
    const error = `${errors[i % errors.length]} ${i}`
    const { id } = fingerprint({ kind: 'mail', code: 'E', error })
    counts.set(id, (counts.get(id) ?? 0) + 1)
  }
  return counts
}
