import type { Paint } from './console.js'
import { clip, pad, textWidth, wrap } from './text-width.js'
import { visible } from './visible.js'

/** A column. A column that may shrink is clipped if the table would be wider than the terminal. */
export interface Column {
  readonly title: string
  readonly mayShrink?: boolean
}

/** A row: its cells, the paint of each, and the lines below it, which are safe to print and fit already. */
export interface Row {
  readonly cells: readonly string[]
  readonly paints?: readonly (((text: string) => string) | undefined)[]
  readonly details?: readonly string[]
}

const GAP = '  '
const MIN_SHRUNK = 8

/** A table for people. */
export function table(
  columns: readonly Column[],
  rows: readonly Row[],
  { width, paint }: { readonly width: number; readonly paint: Paint },
): string {
  const safe = rows.map(row => row.cells.map(visible))
  const widths = fitted(
    columns,
    columns.map(({ title }, i) => Math.max(title.length, ...safe.map(cells => textWidth(cells[i] ?? '')))),
    width,
  )
  const line = (cells: readonly string[], paints: Row['paints'] = []) =>
    cells
      .map((cell, i) => {
        const text = clip(cell, widths[i] ?? 0)
        const filled = i === cells.length - 1 ? text : pad(text, widths[i] ?? 0)
        return paints[i]?.(filled) ?? filled
      })
      .join(GAP)
      .trimEnd()
  const header = line(columns.map(({ title }) => title))
  const lines = rows.flatMap(({ paints, details = [] }, i) => [line(safe[i] ?? [], paints), ...details.map(paint.dim)])
  return [paint.bold(header), ...lines].join('\n')
}

/** A text as one indented line, clipped if it does not fit. */
export function oneLine(text: string, { width, indent }: { readonly width: number; readonly indent: string }): string {
  return indent + clip(visible(text), width - indent.length)
}

/** A text as indented lines that fit. */
export function paragraph(
  text: string,
  { width, indent }: { readonly width: number; readonly indent: string },
): string[] {
  return wrap(visible(text), width - indent.length).map(line => indent + line)
}

/** Names and values, one pair per line. Pairs without a value are left out. */
export function fields(
  entries: readonly (readonly [string, string | undefined])[],
  { width, paint }: { readonly width: number; readonly paint: Paint },
): string {
  const shown = entries.filter((entry): entry is readonly [string, string] => entry[1] !== undefined)
  const nameWidth = Math.max(...shown.map(([name]) => name.length))
  const indent = ' '.repeat(nameWidth + 4)
  return shown
    .map(([name, value]) => {
      const [first = '', ...rest] = paragraph(value, { width, indent })
      return [`  ${paint.dim(pad(name, nameWidth))}  ${first.slice(indent.length)}`.trimEnd(), ...rest].join('\n')
    })
    .join('\n')
}

function fitted(columns: readonly Column[], natural: readonly number[], width: number): number[] {
  let over = natural.reduce((sum, each) => sum + each, 0) + GAP.length * (columns.length - 1) - width
  return natural.map((each, i) => {
    if (over <= 0 || !columns[i]?.mayShrink) return each
    const shrunk = Math.min(each, Math.max(MIN_SHRUNK, each - over))
    over -= each - shrunk
    return shrunk
  })
}
