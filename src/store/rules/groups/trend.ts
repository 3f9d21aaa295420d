export const HOUR_MS = 3_600_000

/** The hours of a trend. */
const HOURS = 24

/** The start of an hour. */
export function hourOf(at: number): number {
  return at - (at % HOUR_MS)
}

/** The first hour of a trend that ends now. */
export function trendFrom(now: number): number {
  return hourOf(now) - (HOURS - 1) * HOUR_MS
}

/** The hours of a trend that ends now, oldest first. */
export function trendHours(now: number): number[] {
  const from = trendFrom(now)
  return Array.from({ length: HOURS }, (_, index) => from + index * HOUR_MS)
}

/** The number of failures in each of the last 24 hours, oldest first. */
export function trendOf(seen: ReadonlyMap<number, number>, now: number): number[] {
  return trendHours(now).map(hour => seen.get(hour) ?? 0)
}
