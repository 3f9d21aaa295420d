import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { openPostgres } from './index.js'
import { type Release, thisRelease } from './release.js'

/** The hash of each version of the functions. The last line may change until it is released, the others never. */
const HASHES: Readonly<Record<number, string>> = {
  1: 'fae64fe2ca3bec25331fd1d6460fdf70d50d528bd721ed281582deab5442b437',
}

const MAX_LINES = 60

/** A function from its first to its last line. Its body is either one text in quotes or the lines up to `$$;`. */
const FUNCTION = /^CREATE OR REPLACE FUNCTION redrive\.(\w+)[\s\S]*?\bAS\s(?:'[^']*';$|\$\$$[\s\S]*?^\$\$;$)/gm

/** A statement that writes, or locks what others wait for. */
const WRITES = /\b(?:INSERT INTO|UPDATE redrive|DELETE FROM|pg_advisory\w*|nextval|FOR (?:NO KEY )?UPDATE)\b/

/** What comes before an operand of a condition, apart from brackets. */
const CONDITION = /^(?:AND|OR|NOT|IF|ELSIF|WHEN|THEN|ELSE|WHERE|ON|HAVING|ANY|ALL|SOME|IN|coalesce)$/

/** The functions that TypeScript calls. */
const VERBS = [
  'add_limit_rule',
  'append_audit',
  'batch_members',
  'batch_tally',
  'cancel',
  'cancelled',
  'claim',
  'claim_key',
  'complete',
  'discard',
  'ended_page',
  'enqueue',
  'enqueue_batch',
  'enqueue_one',
  'expire',
  'heartbeat',
  'leave',
  'lock_shared',
  'pause',
  'plan_claims',
  'plan_settlements',
  'prune',
  'redrive',
  'retried',
  'save_shared',
  'set_limits',
  'settle',
  'standing_of',
  'stats',
  'unfinished_member',
]

let pool: pg.Pool
let release: Release
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase() })
  release = await thisRelease()
  await (await openPostgres(pool)).close()
}, 120_000)
afterAll(() => pool.end())

it('changed functions have a new version', () => {
  expect(release.hash, 'functions/ has changed: raise FUNCTIONS_VERSION, and add the new hash here').toBe(
    HASHES[release.functionsVersion],
  )
})

it(`no function has more than ${MAX_LINES} lines`, () => {
  expect(functions().length).toBe(release.functions.match(/^CREATE/gm)?.length)
  const long = functions().filter(({ text }) => text.split('\n').length > MAX_LINES)
  expect(long.map(({ name }) => name)).toEqual([])
})

it('no call of a function that writes or locks is part of a condition, which PostgreSQL evaluates in any order', () => {
  const bodies = functions().map(({ name, text }) => ({ name, body: text.replaceAll(/--.*/g, '') }))
  const writing = new Set(bodies.filter(({ body }) => WRITES.test(body)).map(({ name }) => name))
  const callsOf = (body: string) => [...body.matchAll(/([^\s([]*)[\s([]*redrive\.(\w+)\(/g)]
  for (let known = 0; known < writing.size; ) {
    known = writing.size
    for (const { name, body } of bodies) if (callsOf(body).some(([, , fn = '']) => writing.has(fn))) writing.add(name)
  }
  expect(writing).toContain('let_retries_through')
  const hidden = bodies.flatMap(({ name, body }) =>
    callsOf(body).flatMap(([, before = '', fn = '']) =>
      writing.has(fn) && CONDITION.test(before) ? [`${name}: ${before} ${fn}()`] : [],
    ),
  )
  expect(hidden).toEqual([])
})

it('verbs plan alike on every connection: with the search path and the planner settings of their own', async () => {
  const settings = await settingsOf()
  for (const verb of VERBS) expect(settings.get(verb), verb).toContain('search_path=pg_catalog')
  // Planned once, and never again with the values of a call: the plan is the one that the tests have seen.
  for (const verb of VERBS) if (verb !== 'append_audit') expect(settings.get(verb), verb).toContain('plan_cache_mode')
})

it('every function that TypeScript calls has the search path of its own, where a stranger’s functions are not found', async () => {
  const files = (await readdir(import.meta.dirname)).filter(file => file.endsWith('.ts') && !file.includes('.test.'))
  const texts = await Promise.all(files.map(file => readFile(join(import.meta.dirname, file), 'utf8')))
  const called = new Set(
    texts.flatMap(text => [...text.matchAll(/\bcall(?:In)?\((?:client, )?'(\w+)'/g)].map(([, fn = '']) => fn)),
  )
  expect(called.size).toBeGreaterThan(50)
  // The first is inlined, and qualifies all that it names; the second is a part of `enqueue`, called in transactions of ours.
  for (const safe of ['now_ms', 'make_lanes']) called.delete(safe)
  const settings = await settingsOf()
  for (const fn of called) expect(settings.get(fn), fn).toContain('search_path=pg_catalog')
})

it('what `redrive.enqueue` calls with the rights of the owner looks up the types of its variables on its own search path', async () => {
  const bodies = new Map<string, string>()
  for (const { name, text } of functions()) bodies.set(name, `${bodies.get(name) ?? ''}${text}`)
  // It passes no tasks that were tried elsewhere.
  for (const name of ['settle_outcomes', 'advance_tried']) bodies.delete(name)
  const reached = new Set(['enqueue'])
  for (const name of reached)
    for (const [, called = ''] of (bodies.get(name) ?? '').matchAll(/redrive\.(\w+)\(/g))
      if (bodies.has(called)) reached.add(called)
  expect(reached).toContain('make_lanes')
  const settings = await settingsOf()
  for (const name of reached) {
    expect(bodies.get(name), name).not.toContain('\\')
    // The names of variables and of records come after DECLARE, or after FOR.
    if (!/^DECLARE$|^\s*FOR \w+ IN (?!REVERSE|\d)/m.test(bodies.get(name) ?? '')) continue
    expect(settings.get(name) ?? '', name).toContain('search_path=pg_catalog, pg_temp')
  }
})

it('functions in SQL have no settings: with them, they would not be inlined', async () => {
  const { rows } = await pool.query(`
    SELECT proname FROM pg_proc JOIN pg_language ON pg_language.oid = prolang
    WHERE pronamespace = 'redrive'::regnamespace AND lanname = 'sql' AND proconfig IS NOT NULL`)
  expect(rows).toEqual([])
})

function functions(): { readonly name: string; readonly text: string }[] {
  return [...release.functions.matchAll(FUNCTION)].map(([text, name = '']) => ({ name, text }))
}

async function settingsOf(): Promise<Map<string, string>> {
  // A form of the last release only calls the one of this release, which comes after it.
  const text = `SELECT proname, proconfig::text AS settings FROM pg_proc WHERE pronamespace = 'redrive'::regnamespace
    ORDER BY proname || '/' || pronargs = ANY ($1) DESC`
  const { rows } = await pool.query(text, [release.lastFunctions])
  return new Map(rows.map(({ proname, settings }) => [proname, settings]))
}
