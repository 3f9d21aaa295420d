/** A name in quotes. Names were checked to hold no quotes. */
export function quote(name: string): string {
  return `"${name}"`
}

/** An identifier in quotes. A name with dots is a path: `public.archives`. */
export function identifier(name: string): string {
  return name.split('.').map(quote).join('.')
}

/** A column of the table, which every statement calls `a`. */
export function column(name: string): string {
  return `a.${quote(name)}`
}

/** A text as a literal. Partial indexes are used only if a query repeats their literals. */
export function literal(text: string): string {
  return `'${text}'`
}
