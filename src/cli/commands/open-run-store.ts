import type { PipelineStore } from '../../pipeline/index.js'
import type { Environment } from '../environment.js'
import { UsageError } from '../errors.js'
import { openStore, type StoreOptions } from './open-store.js'

/** Opens a store that keeps runs. */
export async function openRunStore(
  options: StoreOptions,
  environment: Environment,
  how: { readonly mayCreate: boolean },
): Promise<PipelineStore> {
  const store = await openStore(options, environment, how)
  if ('runs' in store) return store
  await store.close()
  throw new UsageError('This store does not keep runs of pipelines.')
}

/** Opens an existing store that keeps runs, and closes it afterwards. */
export async function withRunStore<T>(
  options: StoreOptions,
  environment: Environment,
  use: (store: PipelineStore) => Promise<T>,
): Promise<T> {
  const store = await openRunStore(options, environment, { mayCreate: false })
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}
