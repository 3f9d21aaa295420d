import type { Paint } from './console.js'
import { clip, pad, textWidth, wrap } from './text-width.js'
import { visible } from './visible.js'

/** A column. With a `minWidth`, its cells are clipped down to that if the table would be wider than the terminal. */
export interface Column {
  readonly title: string
  readonly minWidth?: number
}

/** A row: its cells, the paint of each, and the lines below it, which are safe to print and fit already. */
export interface Row {
  readonly cells: readonly string[]
  readonly paints?: readonly (((text: string) => string) | undefined)[]
  readonly details?: readonly string[]
}

/**
 * The layout of a table that is printed page by page: the first page decides on the header, the columns and their widths.
 * An empty one is given to the first page.
 */
export interface Layout {
  columns?: readonly Column[]
  /** `undefined` where the table does not fit, and each row is a paragraph. */
  widths?: readonly number[] | undefined
}

/** The columns between two cells. */
const GAP = '  '
/** The widest that a column is padded to where nothing is clipped. */
const MAX_PADDED = 64

/** The least width of a column of ids: that of the ids that Redrive makes. */
export const ID_WIDTH = 22
/** The least width of a column of names, such as a kind or a queue. */
export const NAME_WIDTH = 8

/**
 * A table for people. On a terminal it fits: cells of columns that may shrink are clipped, and where that is not enough,
 * each row is printed as a paragraph of its cells, with their names. Without a terminal, nothing is cut.
 */
export function table(
  columns: readonly Column[],
  rows: readonly Row[],
  { width, paint, layout = {} }: { readonly width: number; readonly paint: Paint; readonly layout?: Layout },
): string {
  const safe = rows.map(row => ({ ...row, cells: row.cells.map(visible) }))
  const isWhole = width === Infinity
  const isFirst = layout.columns === undefined
  if (isFirst) {
    const natural = columns.map(({ title }, i) =>
      safe.reduce((most, { cells }) => Math.max(most, textWidth(cells[i] ?? '')), title.length),
    )
    layout.columns = columns
    layout.widths = isWhole ? natural.map(each => Math.min(each, MAX_PADDED)) : fitted(columns, natural, width)
  }
  const { widths } = layout
  const below = (details: Row['details'] = []) => details.map(paint.dim)
  if (widths === undefined) {
    return safe.flatMap(row => [...stacked(columns, row, width), ...below(row.details)]).join('\n')
  }
  const line = ({ cells, paints = [] }: Row) =>
    cells
      .map((cell, i) => {
        const text = isWhole ? cell : clip(cell, widths[i] ?? 0)
        const filled = i === cells.length - 1 ? text : pad(text, widths[i] ?? 0)
        return paints[i]?.(filled) ?? filled
      })
      .join(GAP)
      .trimEnd()
  const header = isFirst ? [paint.bold(line({ cells: columns.map(({ title }) => title) }))] : []
  return [...header, ...safe.flatMap(row => [line(row), ...below(row.details)])].join('\n')
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

/** The widths at which the table fits, or `undefined` if it cannot. The column with the most to spare shrinks first. */
function fitted(columns: readonly Column[], natural: readonly number[], width: number): number[] | undefined {
  const widths = [...natural]
  const spare = (i: number) => (widths[i] ?? 0) - (columns[i]?.minWidth ?? Infinity)
  let over = natural.reduce((sum, each) => sum + each, 0) + GAP.length * (columns.length - 1) - width
  for (const i of [...columns.keys()].sort((a, b) => spare(b) - spare(a))) {
    const cut = Math.max(0, Math.min(over, spare(i)))
    widths[i] = (widths[i] ?? 0) - cut
    over -= cut
  }
  return over > 0 ? undefined : widths
}

/**
 * A row as lines of its cells, broken between cells alone. The first has no name, the others that of their column. A cell
 * that is wider than a line is clipped.
 */
function stacked(columns: readonly Column[], { cells, paints = [] }: Row, width: number): string[] {
  const lines: string[] = []
  let room = 0
  const names = columns.map(({ title }, i) => (i === 0 ? '' : `${title.toLowerCase()} `))
  for (const [i, cell] of cells.entries()) {
    if (/^-?$/.test(cell)) continue
    const text = clip(`${names[i]}${cell}`, width - (lines.length === 0 ? 0 : GAP.length))
    const painted = paints[i]?.(text) ?? text
    if (lines.length > 0 && textWidth(text) + GAP.length <= room) {
      lines[lines.length - 1] += GAP + painted
      room -= textWidth(text) + GAP.length
    } else {
      const indent = lines.length === 0 ? '' : GAP
      lines.push(indent + painted)
      room = width - indent.length - textWidth(text)
    }
  }
  return lines
}
