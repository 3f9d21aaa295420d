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
      console.data(json(items, 2))
      return
    case 'jsonl':
      for (const item of items) console.data(json(item))
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
    else if (format === 'jsonl') await console.stream(items.map(item => json(toJson(item))).join('\n'))
    else {
      const texts = items.map(item => json(toJson(item), 2).replace(/^/gm, '  '))
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
  if (format !== 'table') console.data(json(value, format === 'json' ? 2 : undefined))
}

function json(value: unknown, indent?: number): string {
  return visibleJson(JSON.stringify(value, null, indent))
}
