import { exactJson, indentedJson } from '../../policy/internal.js'
import type { Console } from './console.js'
import type { Layout } from './table.js'
import { visibleJson } from './visible.js'

/** The formats of data: a table for people, one JSON text, or one JSON text per line. */
export const OUTPUT_FORMATS = ['table', 'json', 'jsonl'] as const

export type OutputFormat = (typeof OUTPUT_FORMATS)[number]

/** Writes a list of plain JSON values. An empty table is not written at all. */
export function writeList<T extends object>(
  console: Console,
  format: OutputFormat,
  items: readonly T[],
  toTable: (items: readonly T[]) => string,
): void {
  switch (format) {
    case 'json':
      console.data(viewJson(items, true))
      return
    case 'jsonl':
      for (const item of items) console.data(viewJson(item))
      return
    case 'table':
      if (items.length > 0) console.data(toTable(items))
  }
}

/** How a list is written. */
export interface ListFormat<T> {
  readonly format: OutputFormat
  /** An item as a plain JSON value. */
  readonly toJson: (item: T) => object
  readonly toTable: (items: readonly T[], layout: Layout) => string
}

/** Writes a list of any length, page by page, and returns its length. The pages of a table share their columns. */
export async function writePages<T>(
  console: Console,
  pages: AsyncIterable<readonly T[]>,
  { format, toJson, toTable }: ListFormat<T>,
): Promise<number> {
  const layout: Layout = {}
  let count = 0
  // An item of a JSON array is written once it is known whether a comma follows.
  let last: string | undefined
  for await (const items of pages) {
    if (items.length === 0) continue
    count += items.length
    if (format === 'table') await console.stream(toTable(items, layout))
    else if (format === 'jsonl') await console.stream(items.map(item => viewJson(toJson(item))).join('\n'))
    else {
      const texts = items.map(item => viewJson(toJson(item), true).replace(/^/gm, '  '))
      const before = last === undefined ? '[' : `${last},`
      await console.stream([before, ...texts.slice(0, -1).map(text => `${text},`)].join('\n'))
      last = texts.at(-1)
    }
  }
  if (format === 'json') console.data(last === undefined ? '[]' : `${last}\n]`)
  return count
}

/** Writes one plain JSON value. */
export function writeOne(console: Console, format: OutputFormat, value: object, toText: () => string): void {
  if (format === 'table') console.data(toText())
  else writeResult(console, format, value)
}

/** Writes the result of an operation for programs. For people, a message says it. */
export function writeResult(console: Console, format: OutputFormat, value: object): void {
  if (format !== 'table') console.data(viewJson(value, format === 'json'))
}

/** The JSON of a view on one line, or indented. Payloads and results in it are as they are stored. */
export function viewJson(value: object, isIndented = false): string {
  const json = exactJson(value)
  return visibleJson(isIndented ? indentedJson(json) : json)
}
