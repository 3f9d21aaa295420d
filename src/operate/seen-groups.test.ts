import { expect, it } from 'vitest'
import { MemoryBus } from '../bus/index.js'
import { fakeClock } from '../testing/index.js'
import { groupFailedQueue, groupFailures } from './index.js'
import type { SeenFailure } from './internal.js'

async function* failures(...errors: readonly (string | undefined)[]): AsyncGenerator<SeenFailure> {
  for (const [index, error] of errors.entries()) yield { id: `d${index}`, kind: 'orders', code: 'final', error }
}

it('groups failures by their fingerprint, the largest group first, as of the look', async () => {
  const clock = fakeClock()
  const errors = ['Error: no card', 'Error: order 1 not found', 'Error: order 2 not found', undefined]
  const { asOf, looked, groups } = await groupFailures(failures(...errors), { clock })
  expect({ asOf, looked }).toEqual({ asOf: new Date(clock.now()).toISOString(), looked: 4 })
  expect(groups.map(({ pattern, count, examples }) => [pattern, count, examples])).toContainEqual([
    'order * not found',
    2,
    ['d1', 'd2'],
  ])
  expect(groups.map(({ count }) => count)).toEqual([2, 1, 1])
})

it('applies rules, redacts, and counts together what would be too many groups', async () => {
  const rules = [{ pattern: 'tenant * is over' }]
  const over = failures('Error: tenant Blue Sky is over', 'Error: tenant Acme is over')
  expect((await groupFailures(over, { rules })).groups).toMatchObject([{ pattern: 'tenant * is over', count: 2 }])
  const secret = await groupFailures(failures('Error: denied, password=hunter2'))
  expect(JSON.stringify(secret)).not.toContain('hunter2')
  const word = (n: number) => [...String(n)].map(digit => 'ghijklmnop'[Number(digit)]).join('')
  const many = failures(...Array.from({ length: 1003 }, (_, n) => `Error: no ${word(n)}`))
  const { groups, looked } = await groupFailures(many)
  expect(groups).toHaveLength(1001)
  expect(groups[0]).toMatchObject({ id: 'other', count: 3 })
  expect(looked).toBe(1003)
})

it('groups a failed queue, whatever is in it, and leaves it as it is', async () => {
  const bus = new MemoryBus()
  await bus.declare({ orders: 'order.placed' })
  const bodies = [
    ...[1, 2].map(n => ({ last_error: `Error: order ${n} not found`, abandoned_reason: 'final' })),
    { last_error: { toString: 'no' }, abandoned_reason: 7 },
  ].map(body => JSON.stringify(body))
  for (const [n, body] of [...bodies, 'no JSON'].entries())
    await bus.put('orders.failed', { id: `m${n}`, type: 'order.placed', body })
  const { groups, looked } = await groupFailedQueue(bus, 'orders.failed')
  expect(groups).toMatchObject([
    { kind: 'order.placed', code: 'final', pattern: 'order * not found', count: 2 },
    { code: '', pattern: '', count: 2 },
  ])
  expect(looked).toBe(4)
  expect((await groupFailedQueue(bus, 'orders.failed', { limit: 1 })).looked).toBe(1)
  await expect(groupFailedQueue(bus, 'nope.failed')).rejects.toThrow("There is no failed queue 'nope.failed'")
})
