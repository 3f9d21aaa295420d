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

  it('clips columns that may shrink in the middle where there is none, the one with the most to spare first', () => {
    expect(linesAt(44)).toEqual([
      'ID                  KIND         REASON',
      'order-42            send-n…tter  final_error',
      '  http_404: not found',
      '01a1e1b6-523f-749e  charge',
    ])
    expect(linesAt(36)[3]).toBe('01a1e1b6…749e  charge')
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

  it('clips the column with the fewest cells to clip first', () => {
    const rows = ['charge-credit-card', 'refund-credit-card'].map(kind => ({ cells: ['order-42', kind, 'dead'] }))
    const [, ...lines] = linesAt(40, [...rows, { cells: ['01a1e1b6-523f-7491', 'charge', 'dead'] }])
    expect(lines).toEqual([
      'order-42      charge-credit-card  dead',
      'order-42      refund-credit-card  dead',
      '01a1e1b…7491  charge              dead',
    ])
  })

  it('keeps both ends of a clipped text, wide characters too', () => {
    const clipped = (text: string) =>
      linesAt(40, [{ cells: [text, 'x'.repeat(11), 'y'.repeat(10)] }])[1]?.split('  ')[0]
    expect(clipped('tenant-0f15b7d2-9c41')).toBe('tenant-0f1…9c41')
    expect(clipped('漢字漢字漢字漢字漢字')).toBe('漢字漢字漢…漢字')
  })

  it('is not padded by one long cell, and cuts nothing, where there is no terminal', () => {
    const long = 'x'.repeat(600)
    const [header, first, second] = linesAt(Infinity, [{ cells: [long, 'k', 'r'] }, { cells: ['a', 'k', 'r'] }])
    expect(first).toBe(`${long}  k     r`)
    expect([header?.length, second?.length].every(length => (length ?? 0) < 90)).toBe(true)
    for (const line of linesAt(80, [{ cells: [long, 'k', 'r'] }])) expect(line.length).toBeLessThanOrEqual(80)
  })

  it('leaves out columns without a value on a terminal, and prints a value of a later page below its row', () => {
    const columns = ['KIND', 'KEY', 'NEXT', 'DEAD'].map(title => ({ title }))
    const rows = [{ cells: ['charge', '-', '', '0'] }]
    const paint = pc.createColors(false)
    expect(table(columns, rows, { width: Infinity, paint })).toBe('KIND    KEY  NEXT  DEAD\ncharge  -          0')
    const layout = {}
    expect(table(columns, rows, { width: 80, paint, layout })).toBe('KIND    DEAD\ncharge  0')
    const later = [{ cells: ['email', 'tenant-7', 'now', '1'], details: ['  broken'] }]
    expect(table(columns, later, { width: 80, paint, layout })).toBe('email   1\n  key tenant-7, next now\n  broken')
  })

  it('moves minor columns below their rows before it clips a name, those with the least to say first', () => {
    const columns = [
      { title: 'KIND', minWidth: 8 },
      { title: 'WAITING', isMinor: true },
      { title: 'RUNNING', isMinor: true },
      { title: 'DEAD' },
    ]
    const rows = [{ cells: ['notify:webhook', '3', '0', '0'] }, { cells: ['notify:mail', '1', '2', '5'] }]
    const at = (width: number) => table(columns, rows, { width, paint: pc.createColors(false) }).split('\n')
    expect(at(38)[1]).toBe('notify:webhook  3        0        0')
    expect(at(30)).toEqual([
      'KIND            WAITING  DEAD',
      'notify:webhook  3        0',
      'notify:mail     1        5',
      '  running 2',
    ])
    expect(at(24)).toEqual([
      'KIND            DEAD',
      'notify:webhook  0',
      '  waiting 3',
      'notify:mail     5',
      '  waiting 1, running 2',
    ])
  })

  it('repeats a clipped name in full below its row', () => {
    const columns = [{ title: 'ID', minWidth: 8, isName: true }, { title: 'STATUS' }]
    const rows = [{ cells: ['order-42', 'dead'] }, { cells: ['0b8f6f0e-7a55-4a7e', 'dead'] }]
    expect(table(columns, rows, { width: 24, paint: pc.createColors(false) }).split('\n')).toEqual([
      'ID                STATUS',
      'order-42          dead',
      '0b8f6f0e-7…-4a7e  dead',
      '  id 0b8f6f0e-7a55-4a7e',
    ])
  })
})
