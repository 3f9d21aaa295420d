import { type Duration, type Policy, policy } from '../policy/index.js'
import type { Preset } from './preset.js'

/** Calls to a message bus, a key-value store, an approval service and APIs, in 17 categories. */
export const calls = {
  name: 'calls',
  categories: {
    NATS_CONNECT: category(5, '1s', '30s', '10s'),
    NATS_PUBLISH: category(3, '500ms', '10s', '5s'),
    NATS_SUBSCRIBE: category(3, '500ms', '10s', '5s'),
    NATS_STREAM_CREATE: category(2, '2s', '60s', '15s'),
    KV_CREATE: category(2, '1s', '30s', '10s'),
    KV_GET: category(3, '500ms', '10s', '5s'),
    KV_PUT: category(3, '500ms', '10s', '5s'),
    KV_DELETE: category(2, '1s', '30s', '5s'),
    EXECUTION_INTENT: category(2, '2s', '60s', '30s'),
    EXECUTION_CONTAINMENT: category(2, '2s', '60s', '60s'),
    EXECUTION_EXPIRATION: category(1, '1s', '30s', '120s'),
    APPROVAL_CHECK: category(3, '1s', '30s', '5s'),
    APPROVAL_GRANT: category(2, '2s', '60s', '10s'),
    REPLAY_PROCESSING: category(1, '1s', '30s', '300s'),
    REPLAY_VALIDATION: category(2, '1s', '30s', '60s'),
    API_REQUEST: category(3, '1s', '30s', '30s'),
    API_VALIDATION: category(2, '500ms', '10s', '10s'),
  },
} as const satisfies Preset

function category(attempts: number, base: Duration, max: Duration, timeout: Duration): Policy {
  return policy({
    attempts,
    backoff: { base, factor: 2, max },
    jitter: { kind: 'proportional', ratio: 0.1 },
    timeout,
    retryOn: 'all',
  })
}
