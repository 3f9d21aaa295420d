import { expect, it } from 'vitest'
import { sqlState } from './database.js'

it.each(['40P01', '57P01', '08006', '23505', 'XX000', 'P0001'])('%s is a code of PostgreSQL', code => {
  expect(sqlState(Object.assign(new Error('x'), { code }))).toBe(code)
})

it.each(['EPIPE', 'EPERM', 'EBADF', 'ECONNRESET', ''])("'%s' is none: the connection broke", code => {
  expect(sqlState(Object.assign(new Error('x'), { code }))).toBe('')
})
