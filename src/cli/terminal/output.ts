import type { Console } from './console.js'
import { shellWord, visibleJson } from './visible.js'

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

/** Writes one plain JSON value. */
export function writeOne(console: Console, format: OutputFormat, value: object, toText: () => string): void {
  if (format === 'table') console.data(toText())
  else writeResult(console, format, value)
}

/** Writes the result of an operation for programs. For people, a message says it. */
export function writeResult(console: Console, format: OutputFormat, value: object): void {
  if (format !== 'table') console.data(json(value, format === 'json' ? 2 : undefined))
}

/** The message after a page that is not the last. */
export function moreAfter(cursor: string): string {
  return `There are more: --after ${shellWord(cursor)}`
}

function json(value: unknown, indent?: number): string {
  return visibleJson(JSON.stringify(value, null, indent))
}
