import type { Work } from '../telemetry/index.js'

/** An event as sinks see it. */
export function eventWork(service: string, id: string, key: string): Work {
  return { kind: 'event', id, name: service, idempotencyKey: key }
}
