import type { BrokerUrls } from './broker.js'
import type { BrokerName } from './shared-brokers.js'

/** A part of a shared broker that is a test's alone, so that it may use any names and list all that is there. */
export async function ownSpace(name: BrokerName, { url, httpUrl }: BrokerUrls): Promise<string> {
  const space = `own-${crypto.randomUUID().slice(0, 8)}`
  if (name === 'nats') return `${url}?prefix=${space}`
  await ask(`${httpUrl}/api/vhosts/${space}`, {})
  await ask(`${httpUrl}/api/permissions/${space}/guest`, { configure: '.*', write: '.*', read: '.*' })
  return `${url}/${space}`
}

async function ask(url: string, body: object): Promise<void> {
  const authorization = `Basic ${btoa('guest:guest')}`
  const headers = { authorization, 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'PUT', headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
}
