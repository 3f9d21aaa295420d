import type * as promClient from 'prom-client'
import type { OpenMetricsContentType, PrometheusContentType, Registry } from 'prom-client'
import { MissingPackageError } from '../policy/index.js'

/** A registry of prom-client, whichever format it writes. */
export type MetricsRegistry = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>

/** Loads prom-client on first use, so that only those who make metrics have to install it. */
export async function loadPromClient(): Promise<typeof promClient> {
  try {
    return await import('prom-client')
  } catch (error) {
    throw new MissingPackageError('The metrics sink', 'prom-client', '^15.1', { cause: error })
  }
}

/** Makes an empty registry. */
export async function newRegistry(): Promise<Registry> {
  const { Registry } = await loadPromClient()
  return new Registry()
}
