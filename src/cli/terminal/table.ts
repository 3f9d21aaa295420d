import type { Paint } from './console.js'
import { clip, pad, textWidth, wrap } from './text-width.js'
import { visible } from './visible.js'

/** A column. It may give way if the table would be wider than the terminal. */
export interface Column {
  readonly title: string
  /** Its cells may be clipped down to this width. */
  readonly minWidth?: number
  /** Its cells are names that people type: those that are clipped are repeated in full below their row. */
  readonly isName?: boolean
  /** Its cells may move to a line below their row, unless they are 0. They do so before any cell is clipped. */
  readonly isMinor?: boolean
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
  /** `null` for a column that is left out. `undefined` where the table does not fit, and each row is a paragraph. */
  widths?: readonly (number | null)[] | undefined
}

/** The columns between two cells. */
const GAP = '  '
/** The widest that a column is padded to where nothing is clipped. */
const MAX_PADDED = 64
/** Minor columns give way to names up to this width; longer ones are clipped. */
const WHOLE_NAME = 40
/** The least number of characters kept at the end of a clipped name, if there is room. */
const KEPT_AT_END = 4

/** The least width of a column of ids: that of the ids that Redrive makes. */
export const ID_WIDTH = 22
/** The least width of a column of names, such as a kind or a queue. */
export const NAME_WIDTH = 8

/**
 * A table for people. On a terminal it fits: columns without a value are left out, minor columns move below their rows,
 * and cells of columns that may shrink are clipped in the middle. Where that is not enough, each row is printed as a
 * paragraph of its cells, with their names. Without a terminal, nothing is left out or cut.
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
    const cells = safe.map(row => row.cells)
    const natural = columns.map(({ title }, i) =>
      cells.reduce((most, row) => Math.max(most, textWidth(row[i] ?? '')), title.length),
    )
    layout.columns = columns
    layout.widths = isWhole ? natural.map(each => Math.min(each, MAX_PADDED)) : fitted(columns, cells, natural, width)
  }
  const { widths } = layout
  const details = (row: Row) => (row.details ?? []).map(paint.dim)
  if (widths === undefined) {
    return safe.flatMap(row => [...stacked(columns, row, width), ...details(row)]).join('\n')
  }
  const last = widths.findLastIndex(each => each !== null)
  const line = ({ cells, paints = [] }: Row) =>
    cells
      .flatMap((cell, i) => {
        const columnWidth = widths[i] ?? null
        if (columnWidth === null) return []
        const text = isWhole ? cell : clipMiddle(cell, columnWidth)
        const filled = i === last ? text : pad(text, columnWidth)
        return [paints[i]?.(filled) ?? filled]
      })
      .join(GAP)
      .trimEnd()
  const below = ({ cells }: Row) => {
    const texts = columns.flatMap(({ title, isName }, i) => {
      const cell = cells[i] ?? ''
      const columnWidth = widths[i] ?? null
      const isBelow = columnWidth === null ? !saysNothing(cell) : !isWhole && isName && textWidth(cell) > columnWidth
      return isBelow ? [`${title.toLowerCase()} ${cell}`] : []
    })
    return wrap(texts.join(', '), width - GAP.length).map(text => paint.dim(GAP + text))
  }
  const header = isFirst ? [paint.bold(line({ cells: columns.map(({ title }) => title) }))] : []
  return [...header, ...safe.flatMap(row => [line(row), ...below(row), ...details(row)])].join('\n')
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

/** The widths at which the table fits, or `undefined` if it cannot. The first column always stays. */
function fitted(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  natural: readonly number[],
  width: number,
): (number | null)[] | undefined {
  const count = (i: number, test: (cell: string) => boolean) => rows.filter(row => test(row[i] ?? '')).length
  const widths = natural.map((each, i) => (i === 0 || count(i, cell => !isEmpty(cell)) > 0 ? each : null))

  // Columns give way in the order of the number of cells that this moves or clips.
  const said = columns.map((_, i) => count(i, cell => !saysNothing(cell)))
  const capped = () => widths.map((each, i) => each && Math.min(each, columns[i]?.minWidth ? WHOLE_NAME : Infinity))
  for (const i of inOrderOf(said, [...columns.keys()]).filter(i => columns[i]?.isMinor)) {
    if (total(capped()) > width) widths[i] = null
  }

  const spare = widths.map((each, i) => (each ?? 0) - (columns[i]?.minWidth ?? Infinity))
  const clipped = columns.map(({ minWidth = 0 }, i) => count(i, cell => textWidth(cell) > minWidth))
  let over = total(widths) - width
  for (const i of inOrderOf(clipped, spare)) {
    const cut = Math.min(over, spare[i] ?? 0)
    if (cut <= 0) continue
    widths[i] = (widths[i] ?? 0) - cut
    over -= cut
  }
  return over > 0 ? undefined : widths
}

/** The indexes of the columns: the smallest figure first and, among equals, the one with the highest rank. */
function inOrderOf(figures: readonly number[], ranks: readonly number[]): number[] {
  const order = (a: number, b: number) => (figures[a] ?? 0) - (figures[b] ?? 0) || (ranks[b] ?? 0) - (ranks[a] ?? 0)
  return [...figures.keys()].sort(order)
}

function total(widths: readonly (number | null)[]): number {
  const shown = widths.filter(each => each !== null)
  return shown.reduce((sum, each) => sum + each, 0) + GAP.length * (shown.length - 1)
}

function isEmpty(cell: string): boolean {
  return cell === '' || cell === '-'
}

/** Whether a cell is not worth a line below its row. */
function saysNothing(cell: string): boolean {
  return isEmpty(cell) || cell === '0'
}

/** Text clipped in its middle: names that differ only at their end still differ. */
function clipMiddle(text: string, width: number): string {
  if (textWidth(text) <= width) return text
  const kept = Math.max(0, width - 1)
  const endWidth = Math.min(Math.floor(kept / 2), Math.max(KEPT_AT_END, Math.floor(kept / 3)))
  const chars = [...text]
  const start = firstThatFit(chars, kept - endWidth)
  const end = firstThatFit([...chars].reverse(), endWidth).reverse()
  return `${start.join('')}…${end.join('')}`
}

/** The first characters that fit, of more than fit. */
function firstThatFit(chars: readonly string[], width: number): string[] {
  let used = 0
  const tooMuch = chars.findIndex(char => {
    used += textWidth(char)
    return used > width
  })
  return chars.slice(0, tooMuch)
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
    if (isEmpty(cell)) continue
    const text = clipMiddle(`${names[i]}${cell}`, width - (lines.length === 0 ? 0 : GAP.length))
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
