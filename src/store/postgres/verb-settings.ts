/** Names without a schema are PostgreSQL's own. Unless it is named, the schema of temporary types comes first. */
const PATH = 'search_path = pg_catalog, pg_temp'

/**
 * Names without a schema are PostgreSQL's own, and the planner has no choice but the plan that the tests have seen: see
 * functions/README.md.
 */
const PLANS = [
  PATH,
  'enable_seqscan = off',
  'enable_bitmapscan = off',
  'enable_hashjoin = off',
  'enable_mergejoin = off',
  'jit = off',
  'plan_cache_mode = force_generic_plan',
]

/** The settings that each mark in the header of a function stands for. One that follows the mark overrides its own. */
const MARKS: readonly (readonly [mark: string, settings: readonly string[]])[] = [
  ['/* verb */', [...PLANS, `lock_timeout = '2s'`]],
  ['/* patient verb */', PLANS],
  ['/* path */', [PATH]],
]

/** The text of functions with their settings in place of the marks. */
export function withSettings(functions: string): string {
  const set = (settings: readonly string[]) => settings.map(setting => `SET ${setting}`).join(' ')
  return MARKS.reduce((text, [mark, settings]) => text.replaceAll(mark, set(settings)), functions)
}
