import type { NodeConnectionOptions } from '@nats-io/transport-node'
import { brokerUrl } from '../broker-url.js'

/** Where a URL of NATS leads, in the client's terms. */
export interface NatsAddress {
  /** The servers as errors name them, without credentials. */
  readonly name: string
  readonly servers: string[]
  /** The names or addresses of the servers, without their ports. */
  readonly hosts: readonly string[]
  readonly credentials: Pick<NodeConnectionOptions, 'user' | 'pass' | 'token'>
  /** Whether the connection must be encrypted. The client ignores the scheme, and would connect in clear. */
  readonly isTls: boolean
}

/**
 * Reads a URL of NATS, or several with commas between them: the servers of a cluster. The first that names a user says who
 * connects. One `tls://` among them makes TLS a must for all, since the client may move from one server to any other.
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
    hosts: urls.map(({ hostname }) => hostname.replace(/^\[|\]$/g, '')),
    credentials: user === '' ? {} : pass === '' ? { token: user } : { user, pass },
    isTls: urls.some(({ protocol }) => protocol === 'tls:'),
  }
}
