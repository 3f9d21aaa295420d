import { findGroup } from '../../../operate/internal.js'
import type { TaskFilter } from '../../../store/index.js'
import type { StoreContract } from '../../../store/internal.js'
import type { FilterOptions } from '../shared/options.js'
import { partOf } from '../shared/where.js'

/** The filter that the flags ask for. A group may be given by the beginning of its id. */
export async function taskFilter(
  store: Pick<StoreContract, 'groups'>,
  { kind, category, key, code, group, where }: FilterOptions,
): Promise<Omit<TaskFilter, 'status'>> {
  return {
    kind,
    category,
    key,
    errorCode: code,
    group: group === undefined ? undefined : (await findGroup(store, group)).id,
    where: partOf(where),
  }
}
