import type { NodeConnectionOptions } from '@nats-io/transport-node'
import { type Duration, OptionError, parseDuration } from '../../policy/index.js'
import { NatsConnection } from './connection.js'
import { loadKv } from './driver.js'
import { NatsIdempotencyStore } from './idempotency-store.js'

/** Where idempotency keys are kept, and for how long. */
export interface NatsIdempotencyStoreOptions {
  /** The bucket, which is made if there is none. Default `redrive-idempotency`. */
  readonly bucket?: string
  /** How many servers of a cluster keep a bucket that is made. Default 1. */
  readonly replicas?: number
  /** How long a done key is remembered. Left out: until it is cleared. */
  readonly keepFor?: Duration
  /** What the client takes besides: credentials, TLS. */
  readonly connection?: NodeConnectionOptions
}

/**
 * Opens a store of idempotency keys in NATS JetStream. Needs the packages `@nats-io/transport-node`,
 * `@nats-io/jetstream` and `@nats-io/kv`.
 *
 * ```ts
 * const guard = new IdempotencyGuard({ store: await openNatsIdempotencyStore('nats://localhost') })
 * ```
 */
export async function openNatsIdempotencyStore(
  url: string,
  { bucket = 'redrive-idempotency', replicas = 1, keepFor, connection = {} }: NatsIdempotencyStoreOptions = {},
): Promise<NatsIdempotencyStore> {
  const keepForMs = keepFor === undefined ? Infinity : parseDuration(keepFor)
  if (!keepForMs)
    throw new OptionError('keepFor', `'keepFor' must be a duration above 0 such as '24h', got ${String(keepFor)}.`)
  const { Kvm } = await loadKv()
  const nats = await NatsConnection.open(url, connection, () => {})
  try {
    // Read from the leader: a replica may not know yet what was written last.
    const options = { history: 1, replicas, storage: 'file', allow_direct: false } as const
    const opened = await new Kvm(nats.jetstream).create(bucket, options)
    return new NatsIdempotencyStore(nats, opened, `KV_${bucket}`, keepForMs)
  } catch (error) {
    await nats.close()
    throw error
  }
}
