import { styleText } from 'node:util'

/** Styles a text, where that can be seen. */
export type Paint = (format: Parameters<typeof styleText>[0], text: string) => string

/** Colours for a terminal; none for a file, a pipe, a dumb terminal or someone who has set NO_COLOR. */
export function painter(stream: NodeJS.WriteStream): Paint {
  const inColour = stream.isTTY && stream.hasColors()
  return (format, text) => (inColour ? styleText(format, text) : text)
}

/** A bar for a share from 0 to 1: a tenth of a cell still shows. */
export function bar(share: number, width: number): string {
  const eighths = Math.max(share > 0 ? 1 : 0, Math.round(share * width * 8))
  return '█'.repeat(eighths >> 3) + ' ▏▎▍▌▋▊▉'.charAt(eighths & 7).trim()
}

/** Breaks a text into lines that fit a terminal of 80 columns. */
export function wrap(text: string, indent = ''): string {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines[lines.length - 1] ?? ''
    if (indent.length + line.length + word.length > 78) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.map(line => indent + line).join('\n')
}
