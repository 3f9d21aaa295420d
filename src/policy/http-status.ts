/** A value that can be the status of an HTTP answer, or else `undefined`. */
export function httpStatus(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 100 && value < 600 && value % 1 === 0 ? value : undefined
}
