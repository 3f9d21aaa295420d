import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import ts from 'typescript'
import { expect, it } from 'vitest'

const SRC = resolve(import.meta.dirname, '../src')

/** The words of the command that can follow `redrive`. */
const NOUNS = [...readFileSync(join(SRC, 'cli/run.ts'), 'utf8').matchAll(/^ {2}add(\w+)\(program/gm)]
const COMMAND = new RegExp(`\\bredrive (?:${NOUNS.map(([, name = '']) => name.toLowerCase()).join('|')})\\b`)

/** Where text is help, which names commands and nothing else. */
const HELP = new Set(['addHelpText', 'description', 'option', 'argument', 'addOption', 'Option', 'requiredOption'])

/** Sentences of the library about a command, without any name in it. Only what stands here word for word is allowed. */
const FIXED = [
  "Run 'redrive migrate', with a role that may make tables.",
  'Its owner grants it what it needs: redrive migrate --grant ROLE.',
  "Creating the store requires the privilege to create schemas: run 'redrive migrate' with a role that has it.",
  "Only the role that owns the store can migrate it to this release: run 'redrive migrate' as that role.",
  'redrive backup is for SQLite. PostgreSQL has tools of its own: pg_dump --schema redrive writes the store alone.',
  "Its payload does not match the task's schema. Change the payload with `redrive dlq edit`, or fix the schema and restart the workers, then redrive it.",
]

/** The texts of a file that name a command and were not made by the helper: `file:line: text`. */
function handMade(file: string, text: string): string[] {
  if (!COMMAND.test(text)) return []
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const found: string[] = []
  const visit = (node: ts.Node): void => {
    if ((ts.isCallExpression(node) || ts.isNewExpression(node)) && HELP.has(nameOf(node.expression))) return
    if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) {
      const words = ts.isStringLiteralLike(node) ? node.text : node.getText().slice(1, -1)
      if (COMMAND.test(words) && !FIXED.includes(words) && !/^\s*(CREATE|SELECT|--)/i.test(words)) {
        const { line } = source.getLineAndCharacterOfPosition(node.getStart())
        found.push(`${relative(SRC, file)}:${line + 1}: ${words}`)
      }
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

function nameOf(callee: ts.Expression): string {
  return ts.isPropertyAccessExpression(callee) ? callee.name.text : callee.getText()
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts') && !file.endsWith('.test.ts') && !file.startsWith('testing'))
  .map(file => join(SRC, file))

it('finds a command that was put together by hand', () => {
  const text = `
    const a = \`To see it, run: redrive task show \${id}\`
    const b = 'redrive dlq ls'
    command.addHelpText('after', 'redrive dlq ls')
    // redrive dlq ls
    const c = suggest('dlq ls')`
  const found = handMade(join(SRC, 'x.ts'), text)
  expect(found.map(each => each.split(': ')[0])).toEqual(['x.ts:2', 'x.ts:3'])
})

it('makes every command that it prints with the helper that quotes names', () => {
  expect(files.flatMap(file => handMade(file, readFileSync(file, 'utf8')))).toEqual([])
})
