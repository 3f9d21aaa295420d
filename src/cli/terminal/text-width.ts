const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u
const NARROWEST = /\p{M}|\p{Cf}/u

/** The number of terminal columns that a text takes. */
export function textWidth(text: string): number {
  let width = 0
  for (const char of text) width += charWidth(char)
  return width
}

/** Text padded with spaces. */
export function pad(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - textWidth(text)))
}

/** Text clipped to a width, with an ellipsis if something was cut. */
export function clip(text: string, width: number): string {
  if (textWidth(text) <= width) return text
  let kept = ''
  let used = 1
  for (const char of text) {
    used += charWidth(char)
    if (used > width) break
    kept += char
  }
  return `${kept}…`
}

/** Wraps a text at spaces, and within a word only if the word alone is wider than a line. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  let used = 0
  for (const word of text.split(' ')) {
    const gap = line === '' ? '' : ' '
    if (used + gap.length + textWidth(word) <= width) {
      line += gap + word
      used += gap.length + textWidth(word)
      continue
    }
    if (line !== '') lines.push(line)
    line = ''
    used = 0
    for (const char of word) {
      if (used + charWidth(char) > width) {
        lines.push(line)
        line = ''
        used = 0
      }
      line += char
      used += charWidth(char)
    }
  }
  return line === '' ? lines : [...lines, line]
}

function charWidth(char: string): number {
  if (char < '\u0300') return 1
  if (WIDE.test(char)) return 2
  return NARROWEST.test(char) ? 0 : 1
}
