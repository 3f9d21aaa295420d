import type { Work } from '../telemetry/index.js'

/** An event as sinks see it. `queue` is where it was taken from, if Redrive took it. */
export function eventWork(service: string, id: string, key: string, queue?: string): Work {
  return { kind: 'event', id, name: service, ...(queue !== undefined && { queue }), idempotencyKey: key }
}
