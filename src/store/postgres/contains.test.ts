import fc from 'fast-check'
import pg from 'pg'
import { expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { containing } from '../rules/json-contains.js'
import { openPostgres } from './open-postgres.js'

/** Values of few kinds, so that many contain each other, with some that `jsonb` refuses. */
const value = fc.letrec(tie => ({
  json: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom('0', '-0.0', '1', '1.0', '10e-1', '9007199254740993', '9007199254740992', '1e200000', '1e-20000'),
    fc.constantFrom('"1"', '""', '"\\u0000"', '"\\ud800"', '"\\u00fc"', '"ü"', 'true', 'false', 'null'),
    fc.array(tie('json'), { maxLength: 3 }).map(values => `[${values.join()}]`),
    fc.dictionary(fc.constantFrom('a', 'b', 'ü'), tie('json'), { maxKeys: 3 }).map(objectOf),
  ),
})).json
const object = fc.dictionary(fc.constantFrom('a', 'b', 'ü'), value, { minKeys: 1, maxKeys: 3 }).map(objectOf)

function objectOf(fields: Readonly<Record<string, unknown>>): string {
  return `{${Object.entries(fields)
    .map(([name, json]) => `"${name}":${json}`)
    .join()}}`
}

it('finds the payloads that the rule finds', async () => {
  const pool = new pg.Pool({ connectionString: await freshDatabase() })
  const store = await openPostgres(pool)
  try {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(object, object, value), { minLength: 20, maxLength: 50 }),
        fc.array(object),
        async (payloads, parts) => {
          const tasks = await store.enqueue(payloads.map(payload => ({ kind: 'k', payload })))
          for (const part of parts) {
            const isContaining = containing(part)
            const expected = tasks.flatMap(({ id }, n) => (isContaining(payloads[n] ?? '') ? [id] : []))
            const { items } = await store.list({ where: part }, { limit: 1000 })
            expect(items.map(({ id }) => id).sort()).toEqual(expected.sort())
          }
          await store.cancel(tasks.map(({ id }) => id))
          await store.prune({ endedMs: 0 }, 1000)
        },
      ),
      { numRuns: 50 },
    )
  } finally {
    await store.close()
    await pool.end()
  }
})
