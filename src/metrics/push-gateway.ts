import { OptionError, RetryableError } from '../policy/index.js'
import { loadPromClient, type MetricsRegistry } from './prom-client.js'

/** Options of `pushGateway`. @inline */
export interface PushGatewayOptions {
  /** The address of the Pushgateway, such as `http://localhost:9091`. */
  readonly url: string
  /** The registry to push. Default: prom-client's own registry. */
  readonly registry?: MetricsRegistry | undefined
  /** The name of the job. Default `redrive-sweeper`. */
  readonly job?: string | undefined
  /**
   * Tells this process from others that push for the same job, which would overwrite each other's metrics otherwise. It has to
   * stay the same when the process is started again, so that it finds its own counters. Default: none.
   */
  readonly instance?: string | undefined
  /** How long the gateway may take to answer, in milliseconds. Default 10 000. */
  readonly timeoutMs?: number | undefined
}

/** A Pushgateway, which keeps the metrics of a process that Prometheus cannot scrape. */
export interface PushGateway {
  /**
   * Adds what the gateway holds to the counters of the registry, and gives its gauges the values that it holds. Without
   * that, a process that begins at 0 and pushes 7 after another pushed 5 would look like an increase of 2, and one that
   * cannot read a collection would push a 0 for it, and so resolve its alerts.
   */
  restore(): Promise<void>
  /** Pushes all metrics of the registry. Rejects if the gateway does not take them. */
  push(): Promise<void>
}

interface Held {
  readonly labels: Readonly<Record<string, string>>
  readonly value?: string
}

/**
 * Pushes metrics to a Pushgateway. Histograms begin anew with each process.
 *
 * ```ts
 * const gateway = await pushGateway({ url: 'http://localhost:9091' })
 * await gateway.restore()
 * ```
 */
export async function pushGateway(options: PushGatewayOptions): Promise<PushGateway> {
  const { url, job = 'redrive-sweeper', instance = '', timeoutMs = 10_000 } = options
  if (!URL.canParse(url)) throw new OptionError('url', `'url' must be the address of a Pushgateway.`)
  const { Counter, Gauge, register } = await loadPromClient()
  const registry = options.registry ?? register
  const { username, password, origin, pathname } = new URL(url)
  const base = `${origin}${pathname}`.replace(/\/$/, '')
  // `fetch` refuses a URL with a password, and repeats it in its error.
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`

  const ask = async (path: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers)
    if (user !== ':') headers.set('authorization', `Basic ${Buffer.from(user).toString('base64')}`)
    const response = await fetch(`${base}${path}`, { ...init, headers, signal: AbortSignal.timeout(timeoutMs) })
    if (response.ok) return response
    throw new RetryableError(`The Pushgateway answered ${response.status}: ${(await response.text()).slice(0, 200)}`, {
      code: 'push_failed',
    })
  }

  return {
    async push() {
      const headers = { 'content-type': registry.contentType }
      const path = `/metrics${labelPath('job', job)}${instance === '' ? '' : labelPath('instance', instance)}`
      await ask(path, { method: 'PUT', headers, body: await registry.metrics() })
    },
    async restore() {
      const groups = groupsIn(await (await ask('/api/v1/metrics')).json())
      const group = groups.find(({ labels = {} }) => labels.job === job && (labels.instance ?? '') === instance) ?? {}
      for (const { name } of registry.getMetricsAsArray()) {
        const metric = registry.getSingleMetric(name)
        for (const { labels, value } of heldOf(group[name])) {
          if (metric instanceof Counter) metric.inc(labels, value)
          // A gauge that collects its own values needs none of another process.
          if (metric instanceof Gauge && Reflect.get(metric, 'collect') === undefined) metric.set(labels, value)
        }
      }
    },
  }
}

/** A label of a group, as a part of a path. The gateway would take an escaped slash for one that divides the path. */
function labelPath(name: string, value: string): string {
  if (!value.includes('/')) return `/${name}/${encodeURIComponent(value)}`
  return `/${name}@base64/${Buffer.from(value).toString('base64url')}`
}

type Group = Readonly<Record<string, unknown>> & { readonly labels?: Readonly<Record<string, string>> }

function groupsIn(answer: unknown): readonly Group[] {
  const data = typeof answer === 'object' && answer !== null && 'data' in answer ? answer.data : undefined
  return Array.isArray(data) ? data : []
}

/** The values that a gateway holds of a metric, without the labels that it adds. */
function heldOf(family: unknown): { labels: Record<string, string>; value: number }[] {
  const metrics = typeof family === 'object' && family !== null && 'metrics' in family ? family.metrics : undefined
  const held: readonly Held[] = Array.isArray(metrics) ? metrics : []
  return held.map(({ labels: { job: _, instance: __, ...labels }, value }) => ({ labels, value: Number(value) || 0 }))
}
