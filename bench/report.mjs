// A figure is { title, note?, columns: [{ key, head, digits }], rows: [{ name, note?, … }], target?: { row, key, max | min } }.

/** Whether a figure is within its target: `ok`, `MISSED`, or `undefined` where it has none. */
export function verdict({ rows, target }) {
  if (target === undefined) return undefined
  const row = rows.find(({ name }) => name === target.row)
  const isMet = target.max === undefined ? row[target.key] >= target.min : row[target.key] <= target.max
  return isMet ? 'ok' : 'MISSED'
}

export function table(figure) {
  const { title, note, columns, rows, target } = figure
  const cells = [
    ['', ...columns.map(({ head }) => head), target === undefined ? '' : 'target', ''],
    ...rows.map(row => [
      row.name,
      ...columns.map(({ key, digits }) => format(row[key], digits)),
      target?.row === row.name ? `${bound(target)} ${verdict(figure)}` : '',
      row.note ?? '',
    ]),
  ]
  const widths = cells[0].map((_, column) => Math.max(...cells.map(row => row[column].length)))
  const isText = column => column === 0 || column > columns.length
  const lines = cells.map(row =>
    row
      .map((cell, column) => (isText(column) ? cell.padEnd(widths[column]) : cell.padStart(widths[column])))
      .join('  ')
      .trimEnd(),
  )
  return [title, ...(note === undefined ? [] : [note]), '', ...lines, ''].join('\n')
}

function format(value, digits) {
  return value === undefined ? '–' : value.toFixed(digits)
}

function bound({ max, min }) {
  return max === undefined ? `≥ ${min}` : `≤ ${max}`
}
