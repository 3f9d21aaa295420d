import type * as promClient from 'prom-client'
import { MissingPackageError } from '../policy/index.js'

/** Loads prom-client on first use, so that only those who make metrics have to install it. */
export async function loadPromClient(): Promise<typeof promClient> {
  try {
    return await import('prom-client')
  } catch (error) {
    throw new MissingPackageError('The metrics sink', 'prom-client', '^15.1', { cause: error })
  }
}
