import type { Console } from './console.js'
import { shellWord, visibleJson } from './visible.js'

/** How data is written: for people, as one JSON text, or as a JSON text per line. */
export const OUTPUT_FORMATS = ['table', 'json', 'jsonl'] as const

export type OutputFormat = (typeof OUTPUT_FORMATS)[number]

/** Writes a list. Without items, a table is nothing at all. */
export function writeList<T>(
  console: Console,
  format: OutputFormat,
  items: readonly T[],
  { toJson, toTable }: { readonly toJson: (item: T) => object; readonly toTable: (items: readonly T[]) => string },
): void {
  switch (format) {
    case 'json':
      console.data(json(items.map(toJson), 2))
      return
    case 'jsonl':
      for (const item of items) console.data(json(toJson(item)))
      return
    case 'table':
      if (items.length > 0) console.data(toTable(items))
  }
}

/** Writes one thing. */
export function writeOne(console: Console, format: OutputFormat, value: object, toText: () => string): void {
  if (format === 'table') console.data(toText())
  else console.data(json(value, format === 'json' ? 2 : undefined))
}

/** What to say when a list goes on. */
export function moreAfter(cursor: string): string {
  return `There are more: --after ${shellWord(cursor)}`
}

function json(value: unknown, indent?: number): string {
  return visibleJson(JSON.stringify(value, null, indent))
}
