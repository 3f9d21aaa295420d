import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const SOURCES = join(import.meta.dirname, 'ferretdb')

/** A server that speaks MongoDB's protocol. */
export interface MongodbServer {
  readonly url: string
  /** Whether its updates are atomic. FerretDB's are not: what races has to pass a relay. */
  readonly isAtomic: boolean
  close(): Promise<void>
}

/** Why there is no server, if there can be none: neither an address nor Go to build FerretDB with. */
export async function whyNoMongodb(): Promise<string | undefined> {
  if (process.env.REDRIVE_TEST_MONGODB_URL !== undefined) return undefined
  try {
    await promisify(execFile)('go', ['version'])
    return undefined
  } catch {
    return 'Set REDRIVE_TEST_MONGODB_URL, or install Go 1.22 or later, with which FerretDB is built.'
  }
}

/** Uses the server of `REDRIVE_TEST_MONGODB_URL`, or starts a FerretDB of our own over SQLite, on loopback. */
export async function startMongodb(): Promise<MongodbServer> {
  const url = process.env.REDRIVE_TEST_MONGODB_URL
  if (url !== undefined) return { url, isAtomic: true, close: async () => {} }
  const program = await builtProgram()
  const folder = await mkdtemp(join(tmpdir(), 'redrive-ferretdb-'))
  const server = spawn(program, [folder], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await Promise.race([
    once(server.stdout, 'data'),
    once(server, 'exit').then(([code]) => {
      throw new Error(`FerretDB ended with ${code} before it listened.`)
    }),
  ])
  return {
    url: String(line).trim(),
    isAtomic: false,
    close: async () => {
      const ended = once(server, 'exit')
      // It stops when its standard input ends.
      server.stdin.end()
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Builds FerretDB once per version of its sources, which takes a minute or two. Others may do so at the same time. */
export async function builtProgram(): Promise<string> {
  const hash = createHash('sha256')
  for (const file of ['main.go', 'go.mod', 'go.sum']) hash.update(await readFile(join(SOURCES, file)))
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'redrive')
  const program = join(folder, `ferretdb-${hash.digest('hex').slice(0, 16)}`)
  if (existsSync(program)) return program
  process.stderr.write('Building FerretDB (once) …\n')
  await mkdir(folder, { recursive: true })
  const fresh = `${program}.${process.pid}`
  const env = { ...process.env, CGO_ENABLED: '0' }
  await promisify(execFile)('go', ['build', '-o', fresh, '.'], { cwd: SOURCES, env })
  await rename(fresh, program)
  return program
}
