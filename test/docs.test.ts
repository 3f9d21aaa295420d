import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
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
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { blocks, pages, runBlock, typeErrors, writeBlocks } from './doc-blocks.js'
import { ROOT } from './subpaths.js'

/**
 * Every TypeScript block in the docs is a module: it is type-checked, and it is run unless it says `no-run` (because it
 * would talk to somebody else's server). A block that throws fails the test, so docs can assert what they claim. Blocks that
 * show another library say `peer`: they are checked by docs-peers.long.test.ts, which installs those.
 */
const OUT = join(ROOT, 'node_modules/.redrive-docs')
const own = blocks.filter(({ isPeer }) => !isPeer)

describe('the code in the docs', () => {
  beforeAll(() => writeBlocks(OUT, own))
  afterAll(() => rmSync(OUT, { recursive: true, force: true }))

  it('type-checks', { timeout: 240_000 }, () => {
    expect(own.length).toBeGreaterThan(0)
    expect(typeErrors(OUT, own)).toEqual([])
  })

  it.each(own.filter(({ runs }) => runs))('runs: $name', { timeout: 60_000 }, block => runBlock(OUT, block))
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

/** The anchors of the headings of a page. */
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

it('the guarantees name tests that exist', () => {
  const text = readFileSync(join(ROOT, 'docs/guarantees.md'), 'utf8')
  const paths = [...text.matchAll(/`((?:src|test)\/[^`]+)`/g)].map(([, path = '']) => path)
  expect(paths.length).toBeGreaterThan(20)
  expect(paths.filter(path => !existsSync(join(ROOT, path)))).toEqual([])
})
