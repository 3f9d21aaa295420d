import { median } from '../interleave.mjs'

const ROUNDS = 5

/** Events per second of contestants that take turns, in rounds. The first round is the warm-up. */
export async function ratesInTurns(contestants) {
  const rates = Object.fromEntries(Object.keys(contestants).map(name => [name, []]))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, measure] of Object.entries(contestants)) {
      const rate = await measure()
      if (round > 0) rates[name].push(rate)
    }
  }
  return rates
}

/** A figure of events per second. Shares are medians over the rounds of the ratio to the first row in the same round. */
export function shareFigure(title, rates, { row, min }) {
  console.error(`  ${title}`)
  const [[first, yardstick]] = Object.entries(rates)
  const rows = Object.entries(rates).map(([name, all]) => ({
    name,
    rate: median(all),
    share: median(all.map((rate, round) => rate / yardstick[round])),
  }))
  const columns = [
    { key: 'rate', head: 'events per second', digits: 0 },
    { key: 'share', head: `× ${first}`, digits: 2 },
  ]
  return { title, columns, rows, target: { row, key: 'share', min } }
}
