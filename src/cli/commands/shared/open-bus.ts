import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Bus, TlsOptions } from '../../../bus/index.js'
import { openNats } from '../../../bus/nats/index.js'
import { openRabbitmq } from '../../../bus/rabbitmq/index.js'
import type { Environment } from '../../environment.js'
import { CommandError, UsageError } from '../../errors.js'

/** The bus: `--bus`, or else REDRIVE_BUS. */
export interface BusOptions {
  readonly bus?: string
  /** The broker's management or monitoring over HTTP: `--monitor`, or else REDRIVE_BUS_MONITOR. */
  readonly monitor?: string
}

const EXAMPLES = "'amqp://localhost' or 'nats://localhost'"

/** Opens the bus that a command is for. */
export async function openBus({ bus, monitor }: BusOptions, { env, cwd, project = cwd }: Environment): Promise<Bus> {
  const text = bus ?? env.REDRIVE_BUS
  if (!text) throw new UsageError(`Which bus? Pass --bus or set REDRIVE_BUS, such as ${EXAMPLES}.`)
  const servers = serversOf(text).map(server => addressOf(server, 'bus'))
  const monitorUrl = monitor ?? (env.REDRIVE_BUS_MONITOR || undefined)
  if (monitorUrl !== undefined) addressOf(monitorUrl, 'monitor')
  const tls = await certificatesOf(servers, bus === undefined ? project : cwd)
  const url = servers.map(({ href }) => href).join(',')
  switch (servers[0]?.protocol) {
    case 'amqp:':
    case 'amqps:':
      return openRabbitmq(url, { managementUrl: monitorUrl, tls })
    case 'nats:':
    case 'tls:':
      return openNats(url, { monitorUrl, tls })
    default:
      // The rest of a URL may hold a password, so it is not repeated.
      throw new UsageError(
        `Buses of the kind '${servers[0]?.protocol}' are not supported. Pass a URL such as ${EXAMPLES}.`,
      )
  }
}

/** Opens the bus, and closes it afterwards. */
export async function withBus<T>(
  options: BusOptions,
  environment: Environment,
  use: (bus: Bus) => Promise<T>,
): Promise<T> {
  const bus = await openBus(options, environment)
  try {
    return await use(bus)
  } finally {
    await bus.close()
  }
}

/** The servers that a URL names: NATS takes several of a cluster, with commas between them. */
function serversOf(text: string): string[] {
  if (!/^(nats|tls):/i.test(text)) return [text]
  return text.split(',').map(server => (server.includes('://') ? server : `nats://${server}`))
}

function addressOf(url: string, what: string): URL {
  try {
    const address = new URL(url)
    decodeURIComponent(address.username + address.password)
    return address
  } catch {
    throw new UsageError(`The URL of the ${what} cannot be parsed. Are the special characters of its password escaped?`)
  }
}

/** Takes a parameter out of the URL. In a list of servers it may stand at any of them. */
function take(servers: readonly URL[], name: string): string | undefined {
  const values = servers.map(({ searchParams }) => searchParams.get(name) ?? undefined)
  for (const { searchParams } of servers) searchParams.delete(name)
  return values.find(value => value !== undefined)
}

/** Reads the certificates that the URL names, by the same parameters as a URL of PostgreSQL. */
async function certificatesOf(servers: readonly URL[], cwd: string): Promise<TlsOptions | undefined> {
  const read = async (name: string) => {
    const file = take(servers, name)
    return file === undefined ? undefined : await readText(resolve(cwd, file))
  }
  const [ca, cert, key] = await Promise.all(['sslrootcert', 'sslcert', 'sslkey'].map(read))
  return (ca ?? cert ?? key) === undefined ? undefined : { ca, cert, key }
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new CommandError(`The URL of the bus names '${path}', which cannot be read.`, { cause })
  }
}
