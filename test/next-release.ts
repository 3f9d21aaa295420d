import type pg from 'pg'
import { Database } from '../src/store/postgres/database.js'
import { migrate } from '../src/store/postgres/migrate.js'
import { type Release, thisRelease } from '../src/store/postgres/release.js'

/**
 * A release after this one, made out of it. It differs as a release with a new feature does: a table and the columns of a
 * settlement have one more, a function has another body, a verb one more argument, with its old form kept for workers of this
 * release, and a helper is gone.
 */
export async function nextRelease(): Promise<Release> {
  const { version, functionsVersion, functions, schema } = await thisRelease()
  return {
    version: version + 1,
    oldest: version,
    functionsVersion: functionsVersion + 1,
    hash: 'next',
    schema: new Map([...schema, [version + 1, STEP]]),
    functions: withNewArgument(withOtherBody(withoutHelper(functions))),
    lastFunctions: functionsIn(functions),
  }
}

/** Brings the store in a schema to a release, as a process of that release does when it opens the store. */
export function migrateTo(release: Release, pool: pg.Pool, { schema = 'redrive', mayMigrate = true } = {}) {
  return migrate(
    new Database({ pool, schema, name: 'The store', timeoutMs: 15_000, clock: undefined }),
    mayMigrate,
    release,
  )
}

/** The helper that the next release does not have. */
export const GONE = 'redrive.runs_alone(int)'

const STEP = /* sql */ `
  ALTER TABLE redrive.task ADD COLUMN shade text;
  ALTER TABLE redrive.worker ADD COLUMN beats int NOT NULL DEFAULT 0;
  ALTER TYPE redrive.settlement_columns ADD ATTRIBUTE shades text[];
`

/** What has to be gone, or replaced, has another name: calls under way find the old one. */
function withoutHelper(functions: string): string {
  return changed(functions, /\bredrive\.runs_alone\(/g, 'redrive.must_run_alone(')
}

/** A heartbeat, of whichever release, is counted. */
function withOtherBody(functions: string): string {
  return changed(
    functions,
    /^CREATE OR REPLACE FUNCTION redrive\.heartbeat\([\s\S]*?\nBEGIN\n/m,
    '$&  UPDATE redrive.worker SET beats = beats + 1 WHERE id = by_worker;\n',
  )
}

function withNewArgument(functions: string): string {
  const header = /^CREATE OR REPLACE FUNCTION redrive\.claim\(([^)]*)\)/m
  const parameters = header.exec(functions)?.[1]?.trim() ?? ''
  const names = parameters.split(',').map(parameter => parameter.trim().split(' ')[0])
  return `${changed(functions, header, `CREATE OR REPLACE FUNCTION redrive.claim(${parameters}, shade text)`)}
    CREATE OR REPLACE FUNCTION redrive.claim(${parameters}) RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
      RETURN redrive.claim(${names.join(', ')}, NULL);
    END
    $$;`
}

function changed(text: string, pattern: RegExp, replacement: string): string {
  const result = text.replace(pattern, replacement)
  if (result === text) throw new Error(`No function matches ${pattern}: change the next release in this file.`)
  return result
}

/** The functions in a text, as name/number of arguments. */
export function functionsIn(functions: string): string[] {
  const headers = functions.matchAll(/^\s*CREATE OR REPLACE FUNCTION redrive\.(\w+)\(([^)]*)\)/gm)
  return Array.from(headers, ([, name, parameters = '']) => {
    const given = parameters.split(',').filter(parameter => !/^\s*(OUT |$)/.test(parameter))
    return `${name}/${given.length}`
  }).sort()
}
