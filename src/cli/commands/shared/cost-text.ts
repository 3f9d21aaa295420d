import { grouped } from '../../terminal/chart.js'

/** `requests 1, tokens 1 250`, or `dollars 0.07` */
export function costText(cost: Readonly<Record<string, number>>): string {
  return Object.entries(cost)
    .map(([bucket, amount]) => `${bucket} ${amount < 100 ? Number(amount.toPrecision(3)) : grouped(amount)}`)
    .join(', ')
}
