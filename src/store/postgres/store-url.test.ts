import { describe, expect, it } from 'vitest'
import { openPostgresSource } from '../../document/postgres/postgres-source.js'
import { openPostgres } from './open-postgres.js'
import { readStoreUrl } from './store-url.js'

describe('the URL of a store', () => {
  it.each([
    ['postgres://localhost/app', 'postgres://localhost/app', undefined],
    ['postgres://localhost/app?schema=x', 'postgres://localhost/app', 'x'],
    [
      'postgres://u:p%3F@h/app?sslmode=require&schema=x&options=-c%20a%3Db',
      'postgres://u:p%3F@h/app?sslmode=require&options=-c%20a%3Db',
      'x',
    ],
    ['postgres://u@/app?host=/run/pg&schema=x', 'postgres://u@/app?host=/run/pg', 'x'],
    [
      'postgres://h/app?sslmode=require&channel_binding=require',
      'postgres://h/app?sslmode=require&channel_binding=require',
      undefined,
    ],
    ['/run/postgresql app', '/run/postgresql app', undefined],
  ])('%s is %s for the driver, with the schema %s', (text, url, schema) => {
    expect(readStoreUrl('url', text)).toEqual({ url, schema })
  })

  it.each(['shema=x', 'pgbouncer=true', 'schema=x&connection_limit=1'])(
    'has no parameters that nobody knows: %s',
    async query => {
      const url = `postgres://ada:hunter2@localhost:1/app?${query}`
      for (const open of [openPostgres, openPostgresSource]) {
        await expect(open(url)).rejects.toMatchObject({
          code: 'invalid_option',
          message: expect.stringMatching(/parameter '(shema|pgbouncer|connection_limit)'/),
        })
        await expect(open(url)).rejects.not.toThrow('hunter2')
      }
    },
  )

  it('never means the schema of everybody', async () => {
    await expect(openPostgres('postgres://localhost:1/app?schema=public')).rejects.toThrow(
      "Prisma's has '?schema=public'",
    )
    await expect(openPostgres('postgres://localhost:1/app', { schema: 'public' })).rejects.toThrow(
      'a schema of its own',
    )
  })

  it.each([[undefined], [null], [42], [{}], ['']])('is not %s', async at => {
    const wrong = { code: 'invalid_option' }
    await expect(openPostgres(at as unknown as string)).rejects.toMatchObject(wrong)
    await expect(openPostgresSource(at as unknown as string)).rejects.toMatchObject(wrong)
  })
})
