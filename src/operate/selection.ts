import { OptionError } from '../policy/index.js'
import type { TaskFilter } from '../store/index.js'
import { checkIds } from '../store/internal.js'

/** The dead letters to redrive or discard: by id, by filter, or explicitly all of them. */
export type LetterSelection =
  | { readonly ids: readonly string[] }
  | { readonly filter: Omit<TaskFilter, 'status'> }
  | { readonly all: true }

/**
 * Throws an `OptionError` unless the selection is exactly one of the three. A filter that came out empty, or a field that
 * was mistyped, must not mean everything; the store refuses a filter by fields that do not exist.
 */
export function checkSelection(selection: LetterSelection): void {
  const [name, ...others] = Object.keys(selection)
  const isOne = others.length === 0 && (name === 'ids' || name === 'filter' || name === 'all')
  if (!isOne || ('all' in selection && selection.all !== true))
    throw new OptionError('selection', 'Select dead letters by exactly one of { ids }, { filter } and { all: true }.')
  if ('ids' in selection) checkIds(selection.ids)
  if ('filter' in selection && !Object.values(selection.filter).some(value => value !== undefined))
    throw new OptionError('filter', 'The filter is empty. Pass { all: true } for every dead letter.')
}

/** The store's filter for a selection that names no ids. */
export function filterOf(selection: Exclude<LetterSelection, { readonly ids: readonly string[] }>): TaskFilter {
  return { ...('filter' in selection ? selection.filter : {}), status: 'dead' }
}
