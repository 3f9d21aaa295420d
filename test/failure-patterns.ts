import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

/** A line of a file in `test/fixtures/failures`, with the errors that it stands for. */
export interface FailurePattern {
  readonly line: string
  /** `Name: message`, one for each choice of what varies. */
  readonly errors: readonly string[]
}

const SLOT = /⟦(.*?)⟧/

/** The patterns of a file in `test/fixtures/failures`. */
export function failurePatterns(file: string): FailurePattern[] {
  return readFileSync(resolve(import.meta.dirname, 'fixtures/failures', file), 'utf8')
    .split('\n')
    .filter(line => line !== '' && !line.startsWith('#'))
    .map(line => ({ line, errors: [...new Set(choices(line))].slice(0, 200) }))
}

function choices(line: string): string[] {
  const [slot, varying] = SLOT.exec(line) ?? []
  if (slot === undefined || varying === undefined) return [line]
  return varying.split('|').flatMap(choice => choices(line.replace(slot, () => choice)))
}
