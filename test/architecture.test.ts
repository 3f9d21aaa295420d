import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const SRC = resolve(import.meta.dirname, '../src')

/**
 * The folders that each folder may import besides itself, as ARCHITECTURE.md says. Dependencies point inward: the kernel
 * imports nothing.
 */
const ALLOWED = Object.fromEntries(
  [...readFileSync(join(SRC, '../ARCHITECTURE.md'), 'utf8').matchAll(/^\| `src\/(\w+)` +\|.*\| +(.*?) +\|$/gm)].map(
    ([, folder = '', imports = '']): [string, readonly string[]] => [
      folder,
      imports === 'nothing' ? [] : imports.split(', '),
    ],
  ),
)

interface Import {
  readonly file: string
  readonly specifier: string
  readonly isOfTypes: boolean
  /** Loaded when it is needed. */
  readonly isLazy: boolean
}

const sources = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts') && !file.endsWith('.test.ts'))
  .map(file => join(SRC, file))

function importsOf(file: string): Import[] {
  const text = readFileSync(file, 'utf8')
  const statements = text.matchAll(
    /^(?:import|export)\b( type\b)?[^'"]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm,
  )
  return [...statements].map(([, type, from, bare, lazy]) => ({
    file,
    specifier: from ?? bare ?? lazy ?? '',
    isOfTypes: type !== undefined,
    isLazy: lazy !== undefined,
  }))
}

const folderOf = (file: string) => relative(SRC, file).split('/')[0] ?? ''
const target = ({ file, specifier }: Import) => resolve(dirname(file), specifier.replace(/\.js$/, '.ts'))

describe('the dependency direction', () => {
  const imports = sources.filter(file => dirname(file) !== SRC).flatMap(importsOf)

  it('is described in ARCHITECTURE.md, folder by folder', () => {
    const folders = new Set(sources.map(folderOf).filter(name => !name.endsWith('.ts')))
    expect(Object.keys(ALLOWED).sort()).toEqual([...folders].sort())
    expect(ALLOWED).toMatchObject({ policy: [] })
  })

  it.each(Object.entries(ALLOWED).filter(([, imports]) => !imports.includes('everything')))(
    '%s imports nothing but %j',
    (folder, allowed) => {
      const outside = imports
        .filter(({ file, specifier }) => folderOf(file) === folder && specifier.startsWith('.'))
        .filter(entry => folderOf(target(entry)) !== folder && !allowed.includes(folderOf(target(entry))))
      expect(outside).toEqual([])
    },
  )

  it('imports the operator functions in the commands alone: the terminal only prints', () => {
    const importers = imports.filter(entry => folderOf(target(entry)) === 'operate' && folderOf(entry.file) === 'cli')
    expect(importers.length).toBeGreaterThan(0)
    const others = importers.filter(({ file }) => !relative(SRC, file).startsWith('cli/commands/'))
    expect(others).toEqual([])
  })

  it('shows the conformance suite of the stores only their types: its model must not share the rules that it checks', () => {
    const suite = resolve(SRC, '../test/conformance')
    const files = readdirSync(suite, { recursive: true, encoding: 'utf8' }).filter(file => file.endsWith('.ts'))
    const fromStores = files
      .flatMap(file => importsOf(join(suite, file)))
      .filter(entry => folderOf(target(entry)) === 'store')
    expect(fromStores.length).toBeGreaterThan(30)
    expect(fromStores.filter(({ isOfTypes }) => !isOfTypes)).toEqual([])
  })

  it('reaches another folder through its index.ts or internal.ts alone', () => {
    const inside = imports
      .filter(({ specifier }) => specifier.startsWith('..'))
      .filter(
        entry => folderOf(target(entry)) !== folderOf(entry.file) && !/\/(index|internal)\.js$/.test(entry.specifier),
      )
    expect(inside).toEqual([])
  })
})

describe('the package root', () => {
  it('pulls in no dependency: whatever it reaches imports only its own files and Node', () => {
    const seen = new Set<string>()
    const foreign: Import[] = []
    const visit = (file: string) => {
      if (seen.has(file)) return
      seen.add(file)
      for (const entry of importsOf(file)) {
        if (entry.specifier.startsWith('.')) visit(target(entry))
        else if (!entry.specifier.startsWith('node:')) foreign.push(entry)
      }
    }
    visit(join(SRC, 'index.ts'))
    expect(foreign).toEqual([])
    expect(seen.size).toBeGreaterThan(30)
  })
})

describe('the parser of cron expressions', () => {
  /** The files that an entry loads at once, and those that import the parser. */
  function importersOf(entry: string): string[] {
    const seen = new Set<string>()
    const importers: string[] = []
    const visit = (file: string) => {
      if (seen.has(file)) return
      seen.add(file)
      for (const found of importsOf(file).filter(({ isLazy, isOfTypes }) => !isLazy && !isOfTypes)) {
        if (found.specifier === 'croner') importers.push(relative(SRC, file))
        else if (found.specifier.startsWith('.')) visit(target(found))
      }
    }
    visit(join(SRC, entry))
    return importers
  }

  it('is imported in one file, which only `redrive/schedule` and the command load at once', () => {
    expect(importersOf('schedule/index.ts')).toEqual(['calendar/cron.ts'])
    const others = ['index.ts', ...Object.keys(ALLOWED).map(folder => `${folder}/index.ts`)].filter(
      entry => !/^(schedule|cli)\//.test(entry) && sources.includes(join(SRC, entry)),
    )
    expect(others).toContain('task/index.ts')
    expect(others.flatMap(importersOf)).toEqual([])
  })
})
