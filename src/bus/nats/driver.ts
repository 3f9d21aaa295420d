import type * as jetstream from '@nats-io/jetstream'
import type * as kv from '@nats-io/kv'
import type * as transport from '@nats-io/transport-node'
import { MissingPackageError } from '../../policy/index.js'

/** What is used of the packages of NATS. */
export interface NatsDriver {
  readonly transport: typeof transport
  readonly jetstream: typeof jetstream
}

/** Loads the packages of NATS when they are needed: who opens no NATS need not have them. */
export async function loadDriver(): Promise<NatsDriver> {
  return {
    transport: await load('@nats-io/transport-node', () => import('@nats-io/transport-node')),
    jetstream: await load('@nats-io/jetstream', () => import('@nats-io/jetstream')),
  }
}

/** Loads the key-value part of NATS. */
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

/** JetStream's own code of an error, such as 10059 for a stream that is not there; 0 for errors of another kind. */
export function apiCode(error: unknown): number {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'number' ? code : 0
}

/** There is no such stream. */
export const STREAM_NOT_FOUND = 10059
/** There is such a stream already, made in another way. */
export const STREAM_NAME_IN_USE = 10058
/** There is no such consumer. */
export const CONSUMER_NOT_FOUND = 10014
/** What was to be replaced has been replaced by another. */
export const WRONG_LAST_SEQUENCE = 10071

/** What an answer of JetStream says; `undefined` if it says that the thing is not there. */
export async function orMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if ([STREAM_NOT_FOUND, CONSUMER_NOT_FOUND].includes(apiCode(error))) return undefined
    throw error
  }
}
