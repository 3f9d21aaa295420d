import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT, readJson } from '../subpaths.js'
import { npmInstall } from './npm-install.js'

const run = promisify(execFile)

/** A version of Node, with a better-sqlite3 that was built for it. */
export interface NodeRelease {
  readonly program: string
  /** The folder of the better-sqlite3 that it can load. */
  readonly sqlite: string
  /** The environment of a process in which `node` is this one. */
  readonly env: NodeJS.ProcessEnv
}

/**
 * Fetches a version of Node, and builds better-sqlite3 for it: once, since that takes more than a minute. Both stay in
 * `node_modules/.cache`.
 */
export async function fetchNode(version: string): Promise<NodeRelease> {
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const name = `node-${platform}-${process.arch}`
  const folder = join(ROOT, 'node_modules/.cache/redrive', `node-${version}`)
  const home = join(folder, 'node_modules', name)
  const program = join(home, 'bin/node')
  if (!existsSync(program)) await npmInstall(folder, [`${name}@${version}`])
  // Without the marks of this test run. NODE_EXTRA_CA_CERTS stays: behind a proxy npm cannot reach the registry without it.
  const isOfThisRun = (key: string) => /^(VITEST|NODE_(?!EXTRA_CA_CERTS$)|TEST$|npm_)/.test(key)
  const env = {
    ...Object.fromEntries(Object.entries(process.env).filter(([key]) => !isOfThisRun(key))),
    PATH: `${join(home, 'bin')}${delimiter}${process.env.PATH}`,
    // The headers that native code is built with. They come with the program.
    npm_config_nodedir: home,
  }
  return { program, env, sqlite: await sqliteFor(program, folder, env) }
}

async function sqliteFor(program: string, folder: string, env: NodeJS.ProcessEnv): Promise<string> {
  const ours = join(ROOT, 'node_modules/better-sqlite3')
  if (await canLoad(program, ours)) return ours
  const { version } = readJson('node_modules/better-sqlite3/package.json')
  const built = join(folder, `better-sqlite3-${version}`)
  const own = join(built, 'node_modules/better-sqlite3')
  if (!(await canLoad(program, own)))
    await npmInstall(built, [`better-sqlite3@${version}`], { env, allowScripts: ['better-sqlite3'] })
  return own
}

async function canLoad(program: string, folder: string): Promise<boolean> {
  const open = `new (require(${JSON.stringify(folder)}))(':memory:').close()`
  return run(program, ['-e', open]).then(
    () => true,
    () => false,
  )
}
