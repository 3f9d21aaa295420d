import { expect, it } from 'vitest'
import { otherGroup } from './failure-group.js'

const idOf = (code: string) => otherGroup({ id: '1-9c2f', kind: 'k', code, errorName: '', pattern: '', frames: [] }).id

it('the group of other failures has an id that every store can keep, whatever the code', () => {
  expect(idOf('http_502')).toBe('other:k:http_502')
  expect(idOf('a\0b\ud800')).toBe('other:k:a\ufffdb\ufffd')
  expect(idOf('🚀'.repeat(200))).toBe(`other:k:${'🚀'.repeat(100)}`)
})
