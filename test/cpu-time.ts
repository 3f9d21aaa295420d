/**
 * The processor time that a function takes, in milliseconds: a bound for what hostile input must not make slow. Unlike the
 * clock on the wall, it does not count the work of other processes.
 */
export function cpuTime(fn: () => unknown): number {
  const before = process.cpuUsage()
  fn()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
