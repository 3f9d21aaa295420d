import type * as OpenTelemetry from '@opentelemetry/api'
import { MissingPackageError } from '../policy/index.js'

/** The API of OpenTelemetry. */
export type Api = typeof OpenTelemetry

/** Loads the API on first use, so that only those who trace have to install it. */
export async function loadApi(): Promise<Api> {
  try {
    return await import('@opentelemetry/api')
  } catch (error) {
    throw new MissingPackageError('Tracing', '@opentelemetry/api', '^1.9', { cause: error })
  }
}
