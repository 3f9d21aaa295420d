import { isEncoded } from '../../../codec/internal.js'
import { findGroup } from '../../../operate/internal.js'
import type { TaskFilter } from '../../../store/index.js'
import type { StoreContract } from '../../../store/internal.js'
import { UsageError } from '../../errors.js'
import { quoted } from '../../terminal/visible.js'
import type { FilterOptions } from '../shared/options.js'
import { partOf } from '../shared/where.js'

/** A store, as far as a filter needs it. */
export type FilterReader = Pick<StoreContract, 'groups' | 'list'>

/** The filter that the flags ask for. A group may be given by the beginning of its id. */
export async function taskFilter(
  store: FilterReader,
  { kind, category, key, code, group, unique, where }: FilterOptions,
): Promise<Omit<TaskFilter, 'status'>> {
  const columns = {
    kind,
    category,
    key,
    errorCode: code,
    group: group === undefined ? undefined : (await findGroup(store, group)).id,
    ...(unique !== undefined && { unique }),
  }
  if (where !== undefined) await refuseEncoded(store, columns)
  return { ...columns, where: partOf(where) }
}

/** The newest tasks, which show whether their kinds are encoded. */
const PEEK = 100

/** Refuses to search payloads that no store can read: that none matches would be misleading. */
async function refuseEncoded(store: FilterReader, filter: TaskFilter): Promise<void> {
  const { items } = await store.list(filter, { limit: PEEK })
  const encoded = items.find(({ payload }) => isEncoded(payload))
  if (encoded === undefined) return
  const advice = filter.kind === undefined ? 'Name another kind with --kind.' : 'Leave --where out.'
  throw new UsageError(
    `--where cannot search the payloads of the kind ${quoted(encoded.kind)}: they are encoded. ${advice}`,
  )
}
