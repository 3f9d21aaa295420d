import { inject } from 'vitest'
import type { BrokerUrls } from './broker.js'
import type { BrokerName } from './shared-brokers.js'

/** The broker that all test files of a run share, started when the first of them asks for it. Use names of your own. */
export async function sharedBroker(name: BrokerName): Promise<BrokerUrls> {
  const response = await fetch(new URL(name, inject('services')))
  if (!response.ok) throw new Error(await response.text())
  return (await response.json()) as BrokerUrls
}

/** How long a test file may wait for its broker: it may have to be installed first. */
export const BROKER_MS = 300_000

/** A name that no other test on the shared broker has. */
export function unique(name: string): string {
  return `${name}-${crypto.randomUUID().slice(0, 8)}`
}
