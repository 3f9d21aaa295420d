const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'] as const

/** A horizontal bar, in eighths of a column. A share above 0 is always visible. */
export function bar(share: number, width: number): string {
  const eighths = share > 0 ? Math.max(1, Math.round(Math.min(1, share) * width * 8)) : 0
  return '█'.repeat(Math.floor(eighths / 8)) + (EIGHTHS[eighths % 8] ?? '')
}

/** A bar on a track that shows its full width. */
export function track(share: number, width: number): string {
  const filled = Math.min(width, Math.floor(Math.max(0, share) * width))
  return '█'.repeat(filled) + '░'.repeat(width - filled)
}

/** `98.9 %`. Only a whole is 100 %, and only nothing is 0 %. */
export function percent(share: number): string {
  if (share > 0 && share < 0.0005) return '< 0.1 %'
  if (share < 1 && share > 0.9995) return '> 99.9 %'
  return `${Number((share * 100).toFixed(1))} %`
}

/** `12 345`, with thin groups, so that large numbers can be read. */
export function grouped(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ' ')
}
