import { expect, it } from 'vitest'
import { deadLetters } from '../../test/dead-letters.js'
import { MemoryStore } from '../store/internal.js'

import { fakeClock } from '../testing/index.js'
import { explainGroup, listGroups } from './index.js'
import { findGroup } from './internal.js'

const letter = (id: string, message: string, code = 'NotFound') => ({ id, kind: 'charge', code, message })

async function store() {
  const clock = fakeClock()
  const memory = new MemoryStore({ clock })
  await deadLetters(memory, [
    letter('a', 'Error: order 42 not found'),
    letter('b', "Error: no column 'street'", '42703'),
  ])
  await clock.advance('1h')
  await deadLetters(memory, [letter('c', 'Error: order 43 not found')])
  return memory
}

it('failures whose messages differ in values only are one group, last seen first', async () => {
  const groups = await listGroups(await store())
  expect(groups).toEqual([
    expect.objectContaining({
      kind: 'charge',
      code: 'NotFound',
      errorName: 'Error',
      pattern: 'order * not found',
      seen: 2,
      retrying: 0,
      dead: 2,
      firstSeenAt: '2000-01-01T00:00:00.000Z',
      lastSeenAt: '2000-01-01T01:00:00.000Z',
    }),
    expect.objectContaining({ pattern: "no column 'street'", dead: 1 }),
  ])
  expect(await listGroups(await store(), { kind: 'other' })).toEqual([])
})

it('a group says why it is one, what its tasks share and what varies', async () => {
  const [group] = await listGroups(await store())
  expect(await explainGroup(await store(), group?.id ?? '')).toMatchObject({
    examples: ['c', 'a'],
    why: "All have the kind 'charge', the class Error, the code 'NotFound' and the message 'order * not found', in which * stands for what varies.",
    shared: { status: 'dead', attempts: 1, reason: 'attempts_exhausted' },
    varies: { errorMessage: ['Error: order 43 not found', 'Error: order 42 not found'] },
    compared: 2,
  })
})

it('a group whose message does not vary does not speak of a *', async () => {
  const memory = await store()
  const group = (await listGroups(memory)).find(({ pattern }) => pattern === "no column 'street'")
  const { why } = (await explainGroup(memory, group?.id ?? '')) ?? {}
  expect(why).toMatch(/the message "?'?no column/)
  expect(why).not.toContain('*')
})

it('a group names the rule that makes its failures one, and a group beside it none', async () => {
  const memory = new MemoryStore()
  const why = 'one limit for all'
  await memory.groups.addRule({ pattern: 'tenant * is over' }, { who: 'bob' })
  await memory.groups.addRule({ kind: 'charge', pattern: 'tenant * is over its {*}' }, { who: 'ann', why })
  const { rules } = await memory.groups.rules()
  const failures = ['tenant Blue Sky is over its limit', 'tenant Red is over its limit', 'order 42 not found']
  await deadLetters(
    memory,
    failures.map((message, n) => letter(`t${n}`, `Error: ${message}`)),
    rules,
  )
  const groups = await Promise.all((await listGroups(memory)).map(({ id }) => explainGroup(memory, id)))
  const ruled = groups.find(({ pattern }) => pattern === 'tenant * is over its limit')
  const [, rule] = rules
  expect(ruled).toMatchObject({ dead: 2, rule: { id: rule?.id, who: 'ann', why, pattern: 'tenant * is over its {*}' } })
  expect(ruled?.why).toMatch(/ Rule \d says so, 'tenant \* is over its \{\*\}', added by ann: one limit for all\.$/)
  expect(groups.find(({ pattern }) => pattern.startsWith('order'))).toMatchObject({ rule: null })
})

it('the beginning of an id will do, with or without its version, as long as it is one group alone', async () => {
  const memory = await store()
  const [group] = await listGroups(memory)
  const id = group?.id ?? ''
  for (const text of [id, id.slice(0, 8), id.slice(2, 8)]) expect((await findGroup(memory, text)).id).toBe(id)
  await expect(findGroup(memory, '1-')).rejects.toThrow("'1-' stands for 2 failure groups: 1-")
  await expect(findGroup(memory, 'none')).rejects.toThrow("There is no failure group 'none'.")
})
