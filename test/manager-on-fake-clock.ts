import { RetryManager, type RetryManagerOptions } from '../src/call/index.js'
import { fanOut, memoryAudit, type WorkEvent } from '../src/telemetry/index.js'
import { fakeClock } from '../src/testing/index.js'

/** A retry manager in simulated time. Its jitter is in the middle of its range, so that each delay is its backoff's. */
export function managerOnFakeClock(options: RetryManagerOptions) {
  const clock = fakeClock()
  const events: WorkEvent[] = []
  const audit = memoryAudit()
  const sink = fanOut(audit, event => void events.push(event))
  const manager = new RetryManager({ clock, sink, random: () => 0.5, ...options })
  const settled = async <T>(call: Promise<T>): Promise<PromiseSettledResult<T>> => {
    const [result] = await Promise.allSettled([call, clock.runAll()])
    return result
  }
  const delays = () => events.flatMap(event => ('delayMs' in event ? [event.delayMs] : []))
  return { clock, events, audit, manager, settled, delays }
}
