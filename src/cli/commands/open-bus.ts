import type { Bus } from '../../bus/index.js'
import { openNats } from '../../bus/nats/index.js'
import { openRabbitmq } from '../../bus/rabbitmq/index.js'
import type { Environment } from '../environment.js'
import { UsageError } from '../errors.js'

/** Which bus: what `--bus` says, else REDRIVE_BUS. */
export interface BusOptions {
  readonly bus?: string
  /** Where the broker tells of itself over HTTP: what `--monitor` says, else REDRIVE_BUS_MONITOR. */
  readonly monitor?: string
}

const EXAMPLES = "'amqp://localhost' or 'nats://localhost'"

/** Opens the bus that a command is for. */
export async function openBus({ bus, monitor }: BusOptions, { env }: Environment): Promise<Bus> {
  const url = bus ?? env.REDRIVE_BUS
  if (!url) throw new UsageError(`Which bus? Give --bus or set REDRIVE_BUS: ${EXAMPLES}.`)
  const address = addressOf(url, 'bus')
  const monitorUrl = monitor ?? (env.REDRIVE_BUS_MONITOR || undefined)
  if (monitorUrl !== undefined) addressOf(monitorUrl, 'monitor')
  switch (address.protocol) {
    case 'amqp:':
    case 'amqps:': {
      const exchange = take(address, 'exchange')
      return openRabbitmq(address.href, { exchange, managementUrl: monitorUrl })
    }
    case 'nats:': {
      const prefix = take(address, 'prefix')
      return openNats(address.href, { prefix, monitorUrl })
    }
    default:
      // The rest of a URL may hold a password, so it is not repeated.
      throw new UsageError(`A bus of the kind '${address.protocol}' is not known: give one such as ${EXAMPLES}.`)
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

function addressOf(url: string, what: string): URL {
  try {
    const address = new URL(url)
    decodeURIComponent(address.username + address.password)
    return address
  } catch {
    throw new UsageError(`The URL of the ${what} cannot be read: is a character of its password not escaped?`)
  }
}

/** Takes out of a URL what is for Redrive: `?exchange=NAME` for RabbitMQ, `?prefix=NAME` for NATS. */
function take(address: URL, name: string): string | undefined {
  const value = address.searchParams.get(name) ?? undefined
  address.searchParams.delete(name)
  return value
}
