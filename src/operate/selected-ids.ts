import type { TaskReader } from '../store/index.js'
import { filterOf, type LetterSelection } from './selection.js'

/**
 * The ids of the dead letters that are selected, one transaction's worth at a time. Pages go from the newest to the oldest,
 * so that a task that is redriven and dies again meanwhile does not come a second time.
 */
export async function* selectedIds(
  store: Pick<TaskReader, 'list'>,
  selection: LetterSelection,
  size: number,
): AsyncGenerator<string[]> {
  if ('ids' in selection) {
    const ids = [...new Set(selection.ids)]
    for (let start = 0; start < ids.length; start += size) yield ids.slice(start, start + size)
    return
  }
  const filter = filterOf(selection)
  let after: string | undefined
  do {
    const { items, next } = await store.list(filter, { limit: size, after })
    yield items.map(({ id }) => id)
    after = next
  } while (after !== undefined)
}
