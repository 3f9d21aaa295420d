/** Whether a value can be the status of an HTTP answer. */
export function isStatus(value: unknown): value is number {
  return typeof value === 'number' && /^[1-5]\d\d$/.test(String(value))
}
