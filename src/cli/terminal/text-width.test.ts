import { describe, expect, it } from 'vitest'
import { clip, pad, textWidth, wrap } from './text-width.js'

describe('the width of a text', () => {
  it.each([
    ['', 0],
    ['abc', 3],
    ['é', 1],
    ['e\u0301', 1],
    ['漢字', 4],
    ['👍', 2],
  ])('%j takes %i columns', (text, width) => {
    expect(textWidth(text)).toBe(width)
  })

  it('is what a text is filled up to and cut to', () => {
    expect(pad('漢', 4)).toBe('漢  ')
    expect(clip('abcdef', 6)).toBe('abcdef')
    expect(clip('abcdef', 4)).toBe('abc…')
    expect(clip('漢字漢字', 4)).toBe('漢…')
  })
})

describe('wrapping', () => {
  it('breaks at spaces, and a word only if it is too long itself', () => {
    expect(wrap('one two three', 7)).toEqual(['one two', 'three'])
    expect(wrap('a abcdefghij b', 4)).toEqual(['a', 'abcd', 'efgh', 'ij b'])
    expect(wrap('any length', Infinity)).toEqual(['any length'])
    expect(wrap('', 10)).toEqual([])
  })
})
