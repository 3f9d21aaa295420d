import { createHash } from 'node:crypto'
import type { KV, KvEntry } from '@nats-io/kv'
import type { IdempotencyClaim, IdempotencyClaimRequest, IdempotencyStore } from '../../idempotency/index.js'
import { FinalError } from '../../policy/index.js'
import { isObject, quoted } from '../../policy/internal.js'
import type { NatsConnection } from './connection.js'
import { apiCode, WRONG_LAST_SEQUENCE } from './driver.js'

/** The value of a key in the bucket. It holds no times, since the server stamps every write. */
interface Value {
  readonly fingerprint: string
  readonly token: string
  readonly leaseMs: number
  /** Set once the key is done. */
  readonly result?: string
}

interface Found {
  readonly entry: KvEntry
  /** Absent if another program wrote the entry. */
  readonly value: Value | undefined
}

/** An empty entry, written to read the server's clock. No key's hash has this name. */
const CLOCK = 'clock'

/**
 * Keeps idempotency keys in a NATS JetStream bucket, which survives restarts of client and server. Every write names
 * the revision that it replaces, so that exactly one of several concurrent writes wins.
 */
export class NatsIdempotencyStore implements IdempotencyStore {
  readonly #connection: NatsConnection
  readonly #bucket: KV
  readonly #stream: string
  readonly #keepForMs: number

  constructor(connection: NatsConnection, bucket: KV, stream: string, keepForMs: number) {
    this.#connection = connection
    this.#bucket = bucket
    this.#stream = stream
    this.#keepForMs = keepForMs
  }

  claim(key: string, { fingerprint, leaseMs }: IdempotencyClaimRequest): Promise<IdempotencyClaim> {
    return this.#untilItCounts(key, async found => {
      const taken = found === undefined ? undefined : await this.#taken(key, found, fingerprint)
      if (taken !== undefined) return taken
      const token = crypto.randomUUID()
      await this.#write(key, { fingerprint, token, leaseMs: Math.ceil(leaseMs) }, found)
      return { state: 'fresh', token }
    })
  }

  renew(key: string, token: string, leaseMs: number): Promise<boolean> {
    return this.#untilItCounts(key, async found => {
      if (found?.value?.token !== token || found.value.result !== undefined) return false
      await this.#write(key, { ...found.value, leaseMs: Math.ceil(leaseMs) }, found)
      return true
    })
  }

  complete(key: string, token: string, result: string): Promise<boolean> {
    return this.#untilItCounts(key, async found => {
      if (found?.value?.token !== token) return false
      if (found.value.result === undefined) await this.#write(key, { ...found.value, result }, found)
      return true
    })
  }

  release(key: string, token: string): Promise<void> {
    return this.#untilItCounts(key, async found => {
      if (found?.value?.token === token && found.value.result === undefined) await this.#remove(found.entry)
    })
  }

  clear(key: string): Promise<void> {
    return this.#untilItCounts(key, async found => {
      if (found !== undefined) await this.#remove(found.entry)
    })
  }

  /** Removes expired done keys and returns their number. They no longer count before that, but still take up space. */
  async sweep(): Promise<number> {
    let removed = 0
    for await (const entry of await this.#bucket.history()) {
      if (entry.key === CLOCK || isDeleted(entry) || !this.#isOver(entry)) continue
      if (valueIn(entry)?.result === undefined) continue
      // If somebody claimed the key meanwhile, a newer revision exists, and stays.
      if (await this.#remove(entry).catch(isOutrun)) removed++
    }
    return removed
  }

  /** Disconnects from the server. */
  close(): Promise<void> {
    return this.#connection.close()
  }

  /** Reads the key and acts on it, and starts over if somebody else writes in between. */
  async #untilItCounts<T>(key: string, act: (found: Found | undefined) => Promise<T>): Promise<T> {
    for (;;) {
      const entry = await this.#bucket.get(nameOf(key))
      try {
        // Deleting a key with a NATS tool leaves a marker in its place.
        if (entry !== null && isDeleted(entry)) await this.#remove(entry)
        else return await act(entry === null ? undefined : { entry, value: valueIn(entry) })
      } catch (error) {
        if (!(error instanceof Outrun)) throw error
      }
    }
  }

  async #write(key: string, value: Value, { entry }: Partial<Found> = {}): Promise<void> {
    try {
      await this.#bucket.put(nameOf(key), JSON.stringify(value), { previousSeq: entry?.revision ?? 0 })
    } catch (error) {
      throw apiCode(error) === WRONG_LAST_SEQUENCE ? new Outrun() : error
    }
  }

  /** Removes exactly this revision, without a trace. The bucket's own `delete` would keep a marker per key for ever. */
  async #remove({ revision, rawKey }: KvEntry): Promise<true> {
    try {
      await this.#connection.manager.streams.deleteMessage(this.#stream, revision, false)
      return true
    } catch (error) {
      const current = await this.#bucket.get(rawKey)
      throw current?.revision === revision ? error : new Outrun()
    }
  }

  async #leaseLeftMs(entry: KvEntry, { leaseMs }: Value): Promise<number> {
    await this.#bucket.put(CLOCK, '')
    const now = (await this.#bucket.get(CLOCK))?.created.getTime() ?? 0
    return Math.max(0, entry.created.getTime() + leaseMs - now)
  }

  /** The state of a key that cannot be claimed; `undefined` if it can. */
  async #taken(key: string, { entry, value }: Found, wanted: string): Promise<IdempotencyClaim | undefined> {
    if (value === undefined) throw this.#foreign(key)
    const { fingerprint, result } = value
    if (result !== undefined) return this.#isOver(entry) ? undefined : { state: 'done', fingerprint, result }
    const leaseLeftMs = await this.#leaseLeftMs(entry, value)
    const isFree = leaseLeftMs === 0 && fingerprint === wanted
    return isFree ? undefined : { state: 'in_progress', fingerprint, leaseLeftMs }
  }

  /** Whether its work was done is unknown, so only a person can free such a key. */
  #foreign(key: string): FinalError {
    return new FinalError(
      `The idempotency key ${quoted(key)} was not run: its entry in the stream ${quoted(this.#stream)} was written by ` +
        'another program. Clear the key, and give other programs a bucket of their own.',
      { code: 'idempotency_entry_invalid' },
    )
  }

  /** Compares with the local clock: done keys are kept for hours or days, so clock skew does not matter. */
  #isOver({ created }: KvEntry): boolean {
    return Date.now() >= created.getTime() + this.#keepForMs
  }
}

/** Thrown when somebody else has replaced the revision first. */
class Outrun extends Error {}

function isOutrun(error: unknown): false {
  if (error instanceof Outrun) return false
  throw error
}

/** The value of an entry; `undefined` if another program wrote it. */
function valueIn(entry: KvEntry): Value | undefined {
  try {
    const value: unknown = entry.json()
    return isValue(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isValue(value: unknown): value is Value {
  if (!isObject(value)) return false
  const { fingerprint, token, leaseMs, result } = value
  const isResult = result === undefined || typeof result === 'string'
  return typeof fingerprint === 'string' && typeof token === 'string' && typeof leaseMs === 'number' && isResult
}

/** Whether an entry is only the marker of a deletion. The client throws on headers that it would not write itself. */
function isDeleted(entry: KvEntry): boolean {
  try {
    return entry.operation !== 'PUT'
  } catch {
    return false
  }
}

/** Hashes a key, since a bucket accepts few characters: no colons or spaces, for example. */
function nameOf(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}
