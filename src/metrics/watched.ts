import type * as promClient from 'prom-client'
import { type Sink, sinkFailures } from '../telemetry/index.js'
import type { MetricsRegistry } from './prom-client.js'

/** Things whose state `workMetrics` reads on each scrape. Their names become labels, so let them be few. */
export interface Watched {
  /** Circuit breakers, as `circuitBreaker(name)` makes them. */
  readonly breakers?: readonly WatchedBreaker[] | undefined
  /** Bulkheads, as `bulkhead(name, options)` makes them. */
  readonly bulkheads?: readonly WatchedBulkhead[] | undefined
  /** Other sinks, by name: the work events that they failed to take are counted. */
  readonly sinks?: Readonly<Record<string, Sink>> | undefined
}

/** A circuit breaker. */
export interface WatchedBreaker {
  /** Its name, which becomes a label. */
  readonly name: string
  /** Its present state. */
  readonly state: 'closed' | 'open' | 'half_open'
  /** Calls a listener on every change of state. */
  onChange(listener: (change: { readonly to: string }) => unknown): unknown
}

/** A bulkhead. */
export interface WatchedBulkhead {
  /** Its name, which becomes a label. */
  readonly name: string
  /** Functions that run in it. */
  readonly running: number
  /** Functions that wait for a place. */
  readonly waiting: number
}

const STATES = ['closed', 'open', 'half_open'] as const

/** Makes the metrics of what is watched. */
export function watch(client: typeof promClient, registry: MetricsRegistry, watched: Watched): void {
  if (watched.breakers !== undefined) watchBreakers(client, registry, watched.breakers)
  if (watched.bulkheads !== undefined) watchBulkheads(client, registry, watched.bulkheads)
  if (watched.sinks !== undefined) watchSinks(client, registry, watched.sinks)
}

function watchBreakers(
  { Counter, Gauge }: typeof promClient,
  registry: MetricsRegistry,
  breakers: readonly WatchedBreaker[],
): void {
  const registers = [registry]
  new Gauge({
    name: 'redrive_breaker_state',
    help: 'State of a circuit breaker: 1 for the state that it is in, 0 for the others.',
    labelNames: ['breaker', 'state'],
    registers,
    collect() {
      for (const { name, state: current } of breakers)
        for (const state of STATES) this.set({ breaker: name, state }, state === current ? 1 : 0)
    },
  })
  // A breaker may open and close between two scrapes.
  const opened = new Counter({
    name: 'redrive_breaker_opened_total',
    help: 'How often a circuit breaker opened.',
    labelNames: ['breaker'],
    registers,
  })
  for (const breaker of breakers) {
    opened.inc({ breaker: breaker.name }, 0)
    breaker.onChange(({ to }) => to === 'open' && opened.inc({ breaker: breaker.name }))
  }
}

function watchBulkheads(
  { Gauge }: typeof promClient,
  registry: MetricsRegistry,
  bulkheads: readonly WatchedBulkhead[],
): void {
  const gauge = (name: string, help: string, read: (bulkhead: WatchedBulkhead) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['bulkhead'],
      registers: [registry],
      collect() {
        for (const bulkhead of bulkheads) this.set({ bulkhead: bulkhead.name }, read(bulkhead))
      },
    })
  gauge('redrive_bulkhead_running', 'Functions running in a bulkhead.', ({ running }) => running)
  gauge('redrive_bulkhead_waiting', 'Functions waiting for a slot in a bulkhead.', ({ waiting }) => waiting)
}

function watchSinks(
  { Counter }: typeof promClient,
  registry: MetricsRegistry,
  sinks: Readonly<Record<string, Sink>>,
): void {
  new Counter({
    name: 'redrive_sink_errors_total',
    help: 'Work events that a sink failed to handle.',
    labelNames: ['sink'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [name, sink] of Object.entries(sinks)) this.inc({ sink: name }, sinkFailures(sink))
    },
  })
}
