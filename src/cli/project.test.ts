import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type StoreFolder, storeFolder } from '../../test/store-folder.js'
import { openSqlite } from '../store/sqlite/index.js'

let project: StoreFolder
let inside: string
beforeEach(() => {
  project = storeFolder()
  writeFileSync(join(project.path, 'package.json'), '{ "type": "module" }')
  inside = join(project.path, 'src/jobs')
  mkdirSync(inside, { recursive: true })
})
afterEach(() => project.remove())

const write = (file: string, text: string) => writeFileSync(join(project.path, file), text)
/** Runs the command in a folder within the project. */
const redrive = (argv: readonly string[], env: Record<string, string> = {}) =>
  project.redrive(argv, { cwd: inside, env })

async function storeAt(file: string, id: string) {
  const store = await openSqlite(join(project.path, file))
  await store.enqueue([{ id, kind: 'k', payload: '1' }])
  await store.close()
}

const ids = async (argv: readonly string[] = [], env: Record<string, string> = {}) => {
  const { code, out, err } = await redrive(['task', 'ls', '--output', 'jsonl', ...argv], env)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line).id)
}

it('finds the default store of the project in each of its folders', async () => {
  await storeAt('.redrive/redrive.db', 'default')
  expect(await ids()).toEqual(['default'])
})

it('makes the default store in the folder of the project', async () => {
  expect(await redrive(['migrate'])).toMatchObject({ code: 0 })
  expect(existsSync(join(project.path, '.redrive/redrive.db'))).toBe(true)
  expect(existsSync(join(inside, '.redrive'))).toBe(false)
})

it('takes a flag over a variable, that over the configuration, and that over the default', async () => {
  await storeAt('.redrive/redrive.db', 'default')
  expect(await ids()).toEqual(['default'])
  await storeAt('config.db', 'config')
  write('redrive.config.ts', `const store: string = 'sqlite:./config.db'\nexport default { store }`)
  expect(await ids()).toEqual(['config'])
  await storeAt('variable.db', 'variable')
  expect(await ids([], { REDRIVE_STORE: 'sqlite:variable.db' })).toEqual(['variable'])
  await storeAt('src/jobs/flag.db', 'flag')
  expect(await ids(['--store', 'sqlite:flag.db'], { REDRIVE_STORE: 'sqlite:variable.db' })).toEqual(['flag'])
})

it('stops at the nearest package.json', async () => {
  await storeAt('.redrive/redrive.db', 'outer')
  writeFileSync(join(inside, 'package.json'), '{}')
  expect((await redrive(['task', 'ls'])).err).toContain("There is no store at '.redrive/redrive.db'")
})

it('has the collections of the sweeper in the configuration too', async () => {
  write('app.db', '')
  write(
    'redrive.config.js',
    `export default {
      source: 'sqlite:app.db',
      collections: [{ name: 'letters', event: { type: 'letter.sent', data: ({ id }) => ({ id }) }, statuses: { pending: 'pending', failed: 'failed' } }],
    }`,
  )
  const { err } = await redrive(['docs', 'ls', 'nothing'])
  expect(err).toContain("There is no collection 'nothing'. The collections are letters.")
})

it.each([
  ['{ collections: {} }', "The default export of 'sweep.js' must be an object with 'collections', a list."],
  ["{ source: 'sqlite:app.db', collections: [] }", "'sweep.js' takes no 'source', only collections, coverage, "],
  ['{ stuckafter: 1, collections: [] }', "'sweep.js' takes no 'stuckafter'. Did you mean 'stuckAfter'?"],
  ["{ collections: [{ name: 'letters' }] }", "Collection 'letters': 'event' must be an object"],
])('refuses the settings of a sweeper %s', async (text, message) => {
  write('app.db', '')
  writeFileSync(join(inside, 'sweep.js'), `export default ${text}`)
  for (const command of [
    ['docs', 'ls'],
    ['sweep', '--once'],
  ]) {
    const { code, out, err } = await redrive([...command, '--config', 'sweep.js', '--source', 'sqlite:app.db'])
    expect(code).toBeGreaterThan(0)
    expect(out).toBe('')
    expect(err).toContain(message)
  }
})

it.each([
  ['export default 1', 'must be an object'],
  ['export const store = 1', 'must be an object'],
  ["export default { stroe: 'x' }", "takes no 'stroe'. Did you mean 'store'?"],
  ['export default { store: process.env.NOT_SET_ANYWHERE ?? null }', "'store' in"],
  ["export default { store: '' }", 'must be text'],
  ['throw new Error("no secrets here")', 'cannot be loaded: Error: no secrets here'],
])('refuses the configuration %s', async (text, message) => {
  write('redrive.config.mjs', text)
  const { code, out, err } = await redrive(['task', 'ls'])
  expect(code).toBeGreaterThan(0)
  expect(out).toBe('')
  expect(err).toContain(message)
  expect(await redrive(['task', 'ls', '--help'])).toMatchObject({ code: 0, err: '' })
  expect(await redrive(['help', 'task'])).toMatchObject({ code: 0, err: '' })
})
