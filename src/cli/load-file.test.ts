import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'

const TSX = dirname(import.meta.resolve('tsx/package.json').replace('file://', ''))

let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-load-'))
  const entry = `
    import { loadFile } from ${JSON.stringify(join(import.meta.dirname, 'load-file.ts'))}
    const print = value => console.log(JSON.stringify(value))
    loadFile(process.argv[2]).then(print, error => print(error.message))`
  // Plain JavaScript in a process of its own: here, TypeScript would load by itself.
  const stdin = { contents: entry, resolveDir: import.meta.dirname }
  await build({
    stdin,
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile: join(folder, 'load.mjs'),
    logLevel: 'error',
  })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let project: string
beforeEach(() => {
  project = mkdtempSync(join(folder, 'project-'))
})

const write = (file: string, text: string) => writeFileSync(join(project, file), text)
const install = () => {
  mkdirSync(join(project, 'node_modules'))
  symlinkSync(TSX, join(project, 'node_modules/tsx'))
}
async function load(file: string): Promise<unknown> {
  const env = { ...process.env, NODE_OPTIONS: '' }
  const { stdout } = await promisify(execFile)(process.execPath, [join(folder, 'load.mjs'), join(project, file)], {
    env,
  })
  return JSON.parse(stdout)
}

it.each(['module', 'commonjs'])('loads TypeScript with the tsx of the project, in a package of type %s', async type => {
  write('package.json', JSON.stringify({ type }))
  write('other.ts', `export enum Colour { Red = 'red' }`)
  write('tasks.ts', `import { Colour } from './other.js'\nexport const colour: Colour = Colour.Red`)
  install()
  expect(await load('tasks.ts')).toMatchObject({ colour: 'red' })
})

it('loads JavaScript without it', async () => {
  write('tasks.mjs', 'export const a = 1')
  expect(await load('tasks.mjs')).toEqual({ a: 1 })
})

const hasOwn = Boolean(Reflect.get(process.features, 'typescript'))

it.runIf(hasOwn)("loads TypeScript with Node's own support where the project has no tsx", async () => {
  write('tasks.mts', 'export const a: number = 1')
  expect(await load('tasks.mts')).toEqual({ a: 1 })
})

it.runIf(!hasOwn)('says what to install where nothing can load TypeScript', async () => {
  write('tasks.ts', 'export const a: number = 1')
  expect(await load('tasks.ts')).toMatch(
    /^Node \d+\.\d+\.\d+ cannot load TypeScript by itself\. Install tsx in your project: npm install --save-dev tsx$/,
  )
})
