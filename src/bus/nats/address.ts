import type { NodeConnectionOptions } from '@nats-io/transport-node'
import { brokerUrl, hostIn } from '../broker-url.js'

/** The address in a NATS URL, in the client's terms. */
export interface NatsAddress {
  /** The servers as errors name them, without credentials. */
  readonly name: string
  readonly servers: string[]
  /** The servers in one spelling and order, so that the same cluster is recognised. */
  readonly cluster: string
  /** The names or addresses of the servers, without their ports. */
  readonly hosts: readonly string[]
  readonly credentials: Pick<NodeConnectionOptions, 'user' | 'pass' | 'token'>
  /** Whether the connection must be encrypted. The client ignores the scheme, and would connect in clear. */
  readonly isTls: boolean
}

const DEFAULT_PORT = 4222

/**
 * Parses a NATS URL, or the URLs of a cluster's servers separated by commas. The first one with a user provides the
 * credentials. A single `tls://` requires TLS of all, since the client may move from one server to any other.
 */
export function natsAddress(url: string): NatsAddress {
  const urls = url
    .split(',')
    .map(server => brokerUrl(server.includes('://') ? server : `nats://${server}`, 'url', ['nats:', 'tls:']))
  const { username, password } = urls.find(({ username }) => username !== '') ?? { username: '', password: '' }
  const [user, pass] = [decodeURIComponent(username), decodeURIComponent(password)]
  return {
    name: `NATS at ${urls.map(({ host }) => host).join(', ')}`,
    servers: urls.map(({ host }) => host),
    cluster: [...new Set(urls.map(server => hostIn(server, DEFAULT_PORT)))].sort().join(','),
    hosts: urls.map(({ hostname }) => hostname.replace(/^\[|\]$/g, '')),
    credentials: user === '' ? {} : pass === '' ? { token: user } : { user, pass },
    isTls: urls.some(({ protocol }) => protocol === 'tls:'),
  }
}
