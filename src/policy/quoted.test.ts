import { describe, expect, it } from 'vitest'
import { quoted, shortened } from './quoted.js'

describe('a name in a message', () => {
  it('stands in quotes, on one line, without anything that could drive a terminal', () => {
    expect(quoted('order-42')).toBe("'order-42'")
    expect(quoted('a\nredrive: 5 moved.\x1b[31m\u202e')).toBe("'a\\nredrive: 5 moved.\\x1b[31m\\u202e'")
  })

  it('is cut in the middle if it is long: its end often tells it from others', () => {
    expect(quoted('x'.repeat(64))).toBe(`'${'x'.repeat(64)}'`)
    expect(quoted(`${'x'.repeat(599)}7`)).toBe(`'${'x'.repeat(47)}…${'x'.repeat(15)}7' (600 characters)`)
    expect(shortened('x'.repeat(600))).toHaveLength(64)
  })

  it('may be any value', () => {
    expect([undefined, null, 5, Symbol('s')].map(quoted)).toEqual(['undefined', 'null', '5', 'Symbol(s)'])
    expect([{ toString: 1 }, () => 1].map(quoted)).toEqual(['a value of type object', 'a value of type function'])
  })

  it('does not fail on half a character at the cut', () => {
    expect(quoted('👍'.repeat(40))).toBe(`'${'👍'.repeat(23)}\\ud83d…${'👍'.repeat(8)}' (80 characters)`)
  })
})
