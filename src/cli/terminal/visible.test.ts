import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { shellWord, visible, visibleJson } from './visible.js'

describe('text for a terminal', () => {
  it('shows what could drive it, and leaves the rest as it is', () => {
    expect(visible('é 漢字 👍 \x1b[31m\t\x00\x7f\x9b\u202e\u2028')).toBe(
      'é 漢字 👍 \\x1b[31m\\t\\x00\\x7f\\x9b\\u202e\\u2028',
    )
    expect(visible('half \ud83d of a pair')).toBe('half \\ud83d of a pair')
  })

  it('is still the same JSON', () => {
    const value = { 'k\x9b': ['\x1b', '\u202e', '\x7f', 'line\nbreak'] }
    const text = visibleJson(JSON.stringify(value, null, 2))
    expect(text).not.toMatch(/[^\P{Cc}\n]|\u202e/u)
    expect(JSON.parse(text)).toEqual(value)
  })
})

describe('a word for a shell', () => {
  it.each([
    'plain-1.2',
    'two words',
    "it's",
    '$(rm -rf /)',
    'a;b|c',
    '',
    '*',
    "\x1b[31m it's \\ \u202e\n",
    'é "q" `x`',
  ])('comes out of bash as it went in: %j', word => {
    const env = { ...process.env, LC_ALL: 'C.UTF-8' }
    expect(execFileSync('bash', ['-c', `printf %s ${shellWord(word)}`], { env, encoding: 'utf8' })).toBe(word)
  })
})
