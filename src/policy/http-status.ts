/** Whether a value can be the status of an HTTP answer. */
export function isStatus(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 100 && value < 600
}
