import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runCommand } from './command.js'
import { ROOT } from './subpaths.js'

/** A command line on a page, and what it prints. */
export interface Step {
  readonly line: string
  readonly expected: string
}

/** A file that a page tells to write: a block that begins with its name. */
export interface PageFile {
  readonly name: string
  readonly code: string
}

/** The command lines of a page, and its files. */
export function readPage(path: string) {
  const text = readFileSync(join(ROOT, path), 'utf8')
  const files = [...text.matchAll(/^```[jt]s\n\/\/ ([\w.-]+)\n([\s\S]*?)^```$/gm)].map(
    ([, name = '', code = '']): PageFile => ({ name, code }),
  )
  const steps = [...text.matchAll(/^```console\n([\s\S]*?)^```$/gm)].flatMap(([, block = '']) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((step): Step => ({ line: step.split('\n', 1)[0] ?? '', expected: step.slice(step.indexOf('\n') + 1) })),
  )
  return { text, files, steps }
}

/**
 * Runs command lines one after the other in one folder, with these files in it, and compares what they print. A line `…`
 * stands for any lines, `…` within a line for any text; ages and times may be any.
 */
export function runSteps(steps: readonly Step[], files: readonly PageFile[], prepare = (_folder: string) => {}): void {
  let folder: string
  const before = process.cwd()
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'redrive-docs-'))
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    for (const { name, code } of files) writeFileSync(join(folder, name), code)
    prepare(folder)
    process.chdir(folder)
  })
  afterAll(() => {
    process.chdir(before)
    rmSync(folder, { recursive: true, force: true })
  })

  it.each(steps.map((step, index) => ({ ...step, name: `${index + 1}: ${step.line}` })))(
    '$name',
    async ({ line, expected }) => {
      const said = await run(line, folder)
      expect(said).toMatch(new RegExp(`^${patternOf(expected)}$`))
    },
  )
}

/** Everything that a line prints: messages too, as on a terminal. */
async function run(line: string, folder: string): Promise<string> {
  const [command = '', count] = line.split(/ \| (?=wc -l$)/)
  const [program, ...words] = wordsOf(command)
  if (program === 'npm') return ''
  if (program === 'node') {
    await import(/* @vite-ignore */ join(folder, words[0] ?? ''))
    return ''
  }
  expect([program, words[0]]).toEqual(['npx', 'redrive'])
  let said = ''
  const both = { write: (text: string) => (said += text) }
  const silent = { write: () => {} }
  await runCommand(words.slice(1), { cwd: folder, stdout: both, stderr: count === undefined ? both : silent })
  return count === undefined ? said : `${said.split('\n').length - 1}\n`
}

function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '')
}

const AGE = '\\d+\\w*( \\d+\\w+)?'

function patternOf(expected: string): string {
  return (
    expected
      .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
      .replace(/^…\n/gm, '([^\\n]*\\n)*?')
      .replaceAll('…', '[^\\n]*')
      // A column is as wide as its widest cell, such as a duration.
      .replace(/ {2,}/g, ' {2,}')
      .replace(/\d+\w* ago/g, `(${AGE} ago|now)`)
      .replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/g, '[-\\d]+ [:\\d]+Z')
  )
}
