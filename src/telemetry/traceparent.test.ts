import { expect, it } from 'vitest'
import { isTraceparent, readTraceparent, traceIdOf } from './traceparent.js'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'

it('reads the header of version 00', () => {
  expect(readTraceparent(`00-${TRACE}-${SPAN}-01`)).toBe(`00-${TRACE}-${SPAN}-01`)
  expect(traceIdOf(`00-${TRACE}-${SPAN}-01`)).toBe(TRACE)
})

it.each([`cc-${TRACE}-${SPAN}-01`, `cc-${TRACE}-${SPAN}-01-what-comes-later`])('reads a later version: %s', header => {
  expect(readTraceparent(header)).toBe(`00-${TRACE}-${SPAN}-01`)
})

it.each([
  ['nothing', undefined],
  ['another type', { traceparent: TRACE }],
  ['text', 'DROP TABLE task'],
  ['capitals', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
  ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
  ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
  ['more than version 00 has', `00-${TRACE}-${SPAN}-01-more`],
  ['a later version of zeros', `cc-${'0'.repeat(32)}-${SPAN}-01`],
  ['a later version that goes on without a dash', `cc-${TRACE}-${SPAN}-01.more`],
  ['version ff', `ff-${TRACE}-${SPAN}-01`],
  ['a line break', `00-${TRACE}-${SPAN}-01\n`],
  ['a header without end', `cc-${TRACE}-${SPAN}-01-${'x'.repeat(10_000)}`],
])('ignores %s', (_, header) => {
  expect(readTraceparent(header)).toBeUndefined()
  expect(isTraceparent(header)).toBe(false)
})
