import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import * as calls from 'redrive'
import * as bus from 'redrive/bus'
import * as document from 'redrive/document'
import * as event from 'redrive/event'
import * as idempotency from 'redrive/idempotency'
import * as operate from 'redrive/operate'
import * as pipeline from 'redrive/pipeline'
import * as policy from 'redrive/policy'
import * as store from 'redrive/store'
import * as task from 'redrive/task'
import ts from 'typescript'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { freshDatabase } from './services/fresh-database.js'

/**
 * Every TypeScript block in the docs is a module: it is type-checked, and it is run unless it says `no-run` (because it
 * would talk to somebody else's server). A block that throws fails the test, so docs can assert what they claim.
 */
const ROOT = resolve(import.meta.dirname, '..')
const OUT = join(ROOT, 'node_modules/.redrive-docs')

interface Block {
  readonly name: string
  readonly file: string
  readonly code: string
  readonly runs: boolean
}

function blocksOf(path: string): Block[] {
  const text = readFileSync(join(ROOT, path), 'utf8')
  return [...text.matchAll(/^```ts(.*)\n([\s\S]*?)^```$/gm)].map(([, info = '', code = ''], index) => ({
    name: `${path} #${index + 1}: ${code.split('\n').find(line => line.trim() !== '' && !line.startsWith('import')) ?? ''}`,
    file: join(OUT, `${basename(path, '.md')}-${index + 1}.ts`),
    code: `${code}\nexport {}\n`,
    runs: !info.includes('no-run'),
  }))
}

const pages = [
  ...readdirSync(ROOT).filter(file => file.endsWith('.md')),
  ...readdirSync(join(ROOT, 'docs')).map(file => join('docs', file)),
].filter(file => file.endsWith('.md'))
const blocks = pages.flatMap(blocksOf)

function typeErrors(): string[] {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT)
  const unused = { noUnusedLocals: false, noUnusedParameters: false }
  const program = ts.createProgram(
    blocks.map(({ file }) => file),
    { ...options, ...unused },
  )
  return ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1
    return `${basename(file?.fileName ?? '')}:${line} ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
  })
}

describe('the code in the docs', () => {
  beforeAll(() => {
    mkdirSync(OUT, { recursive: true })
    for (const { file, code } of blocks) writeFileSync(file, code)
  })
  afterAll(() => rmSync(OUT, { recursive: true, force: true }))

  it('type-checks', { timeout: 240_000 }, () => {
    expect(blocks.length).toBeGreaterThan(0)
    expect(typeErrors()).toEqual([])
  })

  it.each(blocks.filter(({ runs }) => runs))('runs: $name', { timeout: 60_000 }, async ({ file, code }) => {
    if (code.includes('DATABASE_URL')) vi.stubEnv('DATABASE_URL', await freshDatabase())
    await import(/* @vite-ignore */ file)
    vi.unstubAllEnvs()
  })
})

describe('the links in the docs', () => {
  it.each(pages)('%s points at files and headings that exist', page => {
    const links = [...proseOf(join(ROOT, page)).matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)]
    const missing = links.filter(([, path = '', heading]) => {
      const file = path === '' ? join(ROOT, page) : resolve(ROOT, page, '..', path)
      if (heading !== undefined) return !headingsOf(file).includes(heading)
      return !ts.sys.fileExists(file) && !ts.sys.directoryExists(file)
    })
    expect(missing.map(([link]) => link)).toEqual([])
  })
})

/** A page without its code. */
function proseOf(file: string): string {
  return ts.sys.fileExists(file) ? readFileSync(file, 'utf8').replace(/^```[\s\S]*?^```$/gm, '') : ''
}

/** What the headings of a page are linked by. */
function headingsOf(file: string): string[] {
  return [...proseOf(file).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

it.each(Object.entries({ calls, pipeline, policy, idempotency, bus, document, event, operate, store, task }))(
  'the errors in the docs are all that %s have',
  (_, exported) => {
    const told = ['errors', 'idempotency'].map(page => readFileSync(join(ROOT, `docs/${page}.md`), 'utf8')).join()
    const errors = Object.keys(exported).filter(name => name.endsWith('Error'))
    expect(errors.length).toBeGreaterThan(0)
    expect(errors.filter(name => !told.includes(`\`${name}\``))).toEqual([])
  },
)

it('the README names every import of the package, and every package that one may need besides', () => {
  const { exports, peerDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const imports = Object.keys(exports).filter(path => path !== './package.json')
  const names = [...imports.map(path => path.replace(/^\./, 'redrive')), ...Object.keys(peerDependencies)]
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
  expect(names.filter(name => !readme.includes(`\`${name}`))).toEqual([])
})
