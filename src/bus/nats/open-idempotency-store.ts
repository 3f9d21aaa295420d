import { type Duration, OptionError, parseDuration } from '../../policy/index.js'
import { NatsConnection, type NatsConnectOptions } from './connection.js'
import { createTogether } from './create-together.js'
import { loadKv } from './driver.js'
import { NatsIdempotencyStore } from './idempotency-store.js'

/** The options of an idempotency store in NATS. @inline */
export interface NatsIdempotencyStoreOptions extends NatsConnectOptions {
  /** The bucket, created if it does not exist. Default `redrive-idempotency`. */
  readonly bucket?: string | undefined
  /** The number of servers of a cluster that keep a created bucket. Default 1. */
  readonly replicas?: number | undefined
  /** How long a done key is remembered. Default: until it is cleared. */
  readonly keepFor?: Duration | undefined
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
  { bucket = 'redrive-idempotency', replicas = 1, keepFor, ...connectOptions }: NatsIdempotencyStoreOptions = {},
): Promise<NatsIdempotencyStore> {
  const keepForMs = keepFor === undefined ? Infinity : parseDuration(keepFor)
  if (!keepForMs)
    throw new OptionError('keepFor', `'keepFor' must be a duration above 0 such as '24h', got ${String(keepFor)}.`)
  const { Kvm } = await loadKv()
  const nats = await NatsConnection.open(url, connectOptions, () => {})
  try {
    // Reads go to the leader: a replica may not have the latest write yet.
    const options = { history: 1, replicas, storage: 'file', allow_direct: false } as const
    const manager = new Kvm(nats.jetstream)
    // The client changes the options that it is given, so each try gets its own.
    const opened = await createTogether(() => manager.create(bucket, { ...options }))
    return new NatsIdempotencyStore(nats, opened, `KV_${bucket}`, keepForMs)
  } catch (error) {
    await nats.close()
    throw error
  }
}
