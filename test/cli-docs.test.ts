import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCommand } from './command.js'

/*
 * Runs the command lines of docs/cli.md, one after the other in one folder, and compares what they print. A line `…` stands
 * for any lines, `…` within a line for any text; ages and times may be any.
 */

const PAGE = readFileSync(new URL('../docs/cli.md', import.meta.url), 'utf8')

interface Step {
  readonly line: string
  readonly expected: string
}

/** The files that the page tells to write: blocks that begin with their name. */
const files = [...PAGE.matchAll(/^```js\n\/\/ ([\w.-]+)\n([\s\S]*?)^```$/gm)]
const steps: Step[] = [...PAGE.matchAll(/^```console\n([\s\S]*?)^```$/gm)].flatMap(([, block = '']) =>
  block
    .split(/^\$ /m)
    .slice(1)
    .map(text => ({ line: text.split('\n', 1)[0] ?? '', expected: text.slice(text.indexOf('\n') + 1) })),
)

let folder: string
const before = process.cwd()
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-docs-'))
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  for (const [, name = '', code = ''] of files)
    if (!name.startsWith('redrive.config')) writeFileSync(join(folder, name), code)
  process.chdir(folder)
})
afterAll(() => {
  process.chdir(before)
  rmSync(folder, { recursive: true, force: true })
})

describe('the command lines in docs/cli.md', () => {
  it.each(steps.map((step, index) => ({ ...step, name: `${index + 1}: ${step.line}` })))(
    '$name',
    async ({ line, expected }) => {
      const said = await run(line)
      expect(said).toMatch(new RegExp(`^${patternOf(expected)}$`))
    },
  )

  it('are there for every command that works on a store', () => {
    const commands = `worker stats migrate backup move prune
      task-ls task-show task-cancel dlq-ls dlq-count dlq-show dlq-redrive dlq-discard
      lane-ls lane-pause lane-resume lane-limit audit-tail audit-verify`
    const missing = commands
      .split(/\s+/)
      .map(name => `npx redrive ${name.replace('-', ' ')}`)
      .filter(command => !steps.some(({ line }) => `${line} `.startsWith(`${command} `)))
    expect(missing).toEqual([])
  })
})

/** Everything that a line prints: messages too, as on a terminal. */
async function run(line: string): Promise<string> {
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
  return expected
    .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replace(/^…\n/gm, '([^\\n]*\\n)*?')
    .replaceAll('…', '[^\\n]*')
    .replace(/\d+\w* ago/g, `(${AGE} ago|now)`)
    .replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/g, '[-\\d]+ [:\\d]+Z')
}
