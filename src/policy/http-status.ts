/** Whether a value can be the status of an HTTP answer. */
export function isStatus(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 100 && Number(value) < 600
}
