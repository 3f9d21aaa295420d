import type { Command } from 'commander'
import type { Registry } from 'prom-client'
import { pushGateway, serveMetrics } from '../../../metrics/index.js'
import { newRegistry } from '../../../metrics/internal.js'
import type { Sink } from '../../../telemetry/index.js'
import type { CommandContext } from '../../command.js'
import { CommandError, errorText } from '../../errors.js'
import { nonEmpty, wholeNumber } from './options.js'

/** Where a command's metrics go. */
export interface MetricsOptions {
  readonly push?: string
  readonly pushInstance?: string
  readonly metricsPort?: number
  readonly metricsHost: string
}

/** The metrics of a command that runs. */
export interface CommandMetrics {
  readonly sink: Sink
  /** Pushes them, if there is a Pushgateway. One that is down is told of, and no reason to stop. */
  push(): Promise<void>
  close(): Promise<void>
}

/** Adds the options of a command that has metrics. */
export function withMetricsOptions(command: Command): Command {
  return command
    .option('--push <url>', 'Pushgateway for metrics, such as http://localhost:9091 (or PUSHGATEWAY_URL)', nonEmpty)
    .option('--push-instance <name>', 'Name of this process, if several push for one job', nonEmpty)
    .option('--metrics-port <port>', 'Serve metrics for Prometheus on this port', wholeNumber(0, 65_535))
    .option('--metrics-host <address>', 'Address to serve metrics on; 0.0.0.0 for all', nonEmpty, '127.0.0.1')
}

/** Makes the metrics of a command, if somebody takes them. */
export async function openMetrics(
  options: MetricsOptions,
  { environment, console }: CommandContext,
  job: string,
  make: (registry: Registry) => Promise<Sink>,
): Promise<CommandMetrics | undefined> {
  const { metricsPort: port, metricsHost: host } = options
  const url = options.push ?? (environment.env.PUSHGATEWAY_URL || undefined)
  if (url === undefined && port === undefined) return undefined
  const registry = await newRegistry()
  const sink = await make(registry)
  const gateway =
    url === undefined ? undefined : await pushGateway({ url, job, instance: options.pushInstance, registry })
  const warn = (error: unknown) => console.say(`The metrics were not pushed: ${errorText(error)}`)
  await gateway?.restore().catch(warn)
  const server = port === undefined ? undefined : await serve({ port, host, registry })
  if (server !== undefined) console.say(`Metrics are at ${server.url}`)
  return {
    sink,
    push: async () => gateway?.push().catch(warn),
    close: async () => server?.close(),
  }
}

async function serve(where: Parameters<typeof serveMetrics>[0]): ReturnType<typeof serveMetrics> {
  try {
    return await serveMetrics(where)
  } catch (cause) {
    throw new CommandError(`The metrics cannot be served: ${errorText(cause)}. Pass another --metrics-port.`, { cause })
  }
}
