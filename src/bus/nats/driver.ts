import type * as jetstream from '@nats-io/jetstream'
import type * as kv from '@nats-io/kv'
import type * as transport from '@nats-io/transport-node'
import { MissingPackageError } from '../../policy/index.js'

/** The NATS packages in use. */
export interface NatsDriver {
  readonly transport: typeof transport
  readonly jetstream: typeof jetstream
}

/** Loads the NATS packages on first use, so that they need not be installed by those who do not use NATS. */
export async function loadDriver(): Promise<NatsDriver> {
  return {
    transport: await load('@nats-io/transport-node', () => import('@nats-io/transport-node')),
    jetstream: await load('@nats-io/jetstream', () => import('@nats-io/jetstream')),
  }
}

/** Loads the key-value package of NATS. */
export function loadKv(): Promise<typeof kv> {
  return load('@nats-io/kv', () => import('@nats-io/kv'))
}

async function load<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (error) {
    throw new MissingPackageError('NATS', name, '^3.4', { cause: error })
  }
}

/** Returns JetStream's error code, such as 10059 for a missing stream; 0 for any other error. */
export function apiCode(error: unknown): number {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'number' ? code : 0
}

/** The stream does not exist. */
const STREAM_NOT_FOUND = 10059
/** The consumer does not exist. */
const CONSUMER_NOT_FOUND = 10014
/** The revision to replace is no longer the latest. */
export const WRONG_LAST_SEQUENCE = 10071

/** Resolves with JetStream's answer, or `undefined` if the stream or consumer does not exist. */
export async function orMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if ([STREAM_NOT_FOUND, CONSUMER_NOT_FOUND].includes(apiCode(error))) return undefined
    throw error
  }
}
