import type pg from 'pg'
import { openPostgres } from '../../src/store/postgres/internal.js'
import { fakeClock } from '../../src/testing/index.js'

/** For the few rows of a test this takes half as long as TRUNCATE, which makes new files for every table and index. */
const EMPTY = `
  DO $$
  DECLARE
    name text;
  BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'redrive' AND tablename <> 'schema_version' LOOP
      EXECUTE format('DELETE FROM redrive.%I', name);
    END LOOP;
  END
  $$`

/** A store that holds nothing, and whose time passes only when it is told to. */
export async function emptyPostgresStore(pool: pg.Pool) {
  const clock = fakeClock()
  const store = await openPostgres(pool, { clock })
  await pool.query(EMPTY)
  return { store, clock, advance: (ms: number) => clock.advance(ms) }
}
