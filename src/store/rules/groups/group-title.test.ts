import { expect, it } from 'vitest'
import { groupTitle } from './group-title.js'

it.each([
  ['Error', 'order * not found', 'Error: order * not found'],
  ['TypeError', 'TypeError: x is not a function', 'TypeError: x is not a function'],
  ['TypeError', 'TypeError', 'TypeError'],
  ['Error', 'Errors are many', 'Error: Errors are many'],
  ['', 'other failures', 'other failures'],
  ['Error', '', 'Error'],
])('a group of class %j and pattern %j is %j', (errorName, pattern, title) => {
  expect(groupTitle({ errorName, pattern })).toBe(title)
})
