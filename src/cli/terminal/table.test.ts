import pc from 'picocolors'
import { describe, expect, it } from 'vitest'
import { type Row, table } from './table.js'

const COLUMNS = [{ title: 'ID', minWidth: 12 }, { title: 'KIND', minWidth: 8 }, { title: 'REASON' }]
const ROWS = [
  { cells: ['order-42', 'send-newsletter', 'final_error'], details: ['  http_404: not found'] },
  { cells: ['01a1e1b6-523f-749e', 'charge', ''] },
]
const linesAt = (width: number, rows: readonly Row[] = ROWS) =>
  table(COLUMNS, rows, { width, paint: pc.createColors(false) }).split('\n')

describe('a table', () => {
  it('is as wide as its cells where there is room', () => {
    expect(linesAt(80)).toEqual([
      'ID                  KIND             REASON',
      'order-42            send-newsletter  final_error',
      '  http_404: not found',
      '01a1e1b6-523f-749e  charge',
    ])
  })

  it('clips columns that may shrink where there is none, the one with the most to spare first', () => {
    expect(linesAt(44)).toEqual([
      'ID                  KIND         REASON',
      'order-42            send-newsl…  final_error',
      '  http_404: not found',
      '01a1e1b6-523f-749e  charge',
    ])
    expect(linesAt(36)[3]).toBe('01a1e1b6-523…  charge')
  })

  it('puts its cells one after the other, with their names, where they cannot stand side by side', () => {
    expect(linesAt(26)).toEqual([
      'order-42',
      '  kind send-newsletter',
      '  reason final_error',
      '  http_404: not found',
      '01a1e1b6-523f-749e',
      '  kind charge',
    ])
    const cells = ROWS.map(row => ({ cells: row.cells }))
    for (const width of [10, 15, 20, 26]) {
      for (const line of linesAt(width, cells)) expect(line.length).toBeLessThanOrEqual(width)
    }
  })

  it('is not padded by one long cell, and cuts nothing, where there is no terminal', () => {
    const long = 'x'.repeat(600)
    const [header, first, second] = linesAt(Infinity, [{ cells: [long, 'k', 'r'] }, { cells: ['a', 'k', 'r'] }])
    expect(first).toBe(`${long}  k     r`)
    expect([header?.length, second?.length].every(length => (length ?? 0) < 90)).toBe(true)
    for (const line of linesAt(80, [{ cells: [long, 'k', 'r'] }])) expect(line.length).toBeLessThanOrEqual(80)
  })
})
