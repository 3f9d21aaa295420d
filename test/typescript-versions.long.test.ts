import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { npmInstall } from './services/npm-install.js'
import { installPacked, linkPackages } from './services/packed.js'
import { ROOT, subpaths } from './subpaths.js'

/** The oldest version that README.md names, ours, and the newest that there is. */
const VERSIONS = ['5.4', '6.0', 'latest']

const LONG_MS = 600_000

const run = promisify(execFile)

const STRICT = {
  target: 'ES2022',
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: false,
  noEmit: true,
  types: ['node'],
}

/** How users resolve modules: Node's way, or that of a bundler. */
const RESOLUTIONS = {
  NodeNext: { module: 'NodeNext', moduleResolution: 'NodeNext' },
  Bundler: { module: 'ESNext', moduleResolution: 'Bundler' },
}

let consumer: string
beforeAll(async () => {
  consumer = mkdtempSync(join(tmpdir(), 'redrive-types-'))
  await installPacked(consumer)
  linkPackages(consumer)
  writeFileSync(join(consumer, 'package.json'), '{ "type": "module" }')
  for (const folder of ['src', 'wrong']) mkdirSync(join(consumer, folder))
  // Everything that can be imported, and the programs that the other tests of types compile.
  const imports = Object.keys(subpaths()).map((name, index) => `export * as module${index} from '${name}'`)
  writeFileSync(join(consumer, 'src/everything.ts'), `${imports.join('\n')}\n`)
  cpSync(join(ROOT, 'test/types/exact-optional.ts'), join(consumer, 'src/exact-optional.ts'))
  writeFileSync(join(consumer, 'src/inference.ts'), INFERENCE)
  writeFileSync(join(consumer, 'wrong/wrong.ts'), WRONG)
  return () => rmSync(consumer, { recursive: true })
}, LONG_MS)

describe.each(VERSIONS)('TypeScript %s', version => {
  let tsc: string
  let found: string
  beforeAll(async () => {
    const folder = join(ROOT, 'node_modules/.cache/redrive', `typescript-${version}`)
    await npmInstall(folder, [`typescript@${version}`])
    tsc = join(folder, 'node_modules/typescript/bin/tsc')
    found = JSON.parse(readFileSync(join(folder, 'node_modules/typescript/package.json'), 'utf8')).version
  }, LONG_MS)

  it('is what npm has under this name', () => {
    if (version !== 'latest') expect(found.startsWith(`${version}.`)).toBe(true)
    process.stdout.write(`TypeScript ${version} is ${found}.\n`)
  })

  it.each(Object.entries(RESOLUTIONS))(
    'compiles a consumer of the packed types, strictly, with %s resolution',
    async (name, resolution) => {
      const config = join(consumer, `tsconfig.${version}-${name}.json`)
      writeFileSync(config, JSON.stringify({ compilerOptions: { ...STRICT, ...resolution }, include: ['src'] }))
      expect(await problems(tsc, config)).toEqual([])
    },
    LONG_MS,
  )

  it('refuses what does not fit', { timeout: LONG_MS }, async () => {
    const config = join(consumer, `tsconfig.${version}-wrong.json`)
    const compilerOptions = { ...STRICT, ...RESOLUTIONS.NodeNext }
    writeFileSync(config, JSON.stringify({ compilerOptions, include: ['wrong'] }))
    const lines = (await problems(tsc, config)).map(problem => /wrong\.ts\((\d+),/.exec(problem)?.[1])
    expect([...new Set(lines)]).toEqual(['3', '5'])
  })
})

/** The packages that the types of a subpath need. All others need none. */
const PEERS: Readonly<Record<string, readonly string[]>> = {
  'redrive/sqlite': ['better-sqlite3', '@types/better-sqlite3'],
  'redrive/postgres': ['pg', '@types/pg'],
  'redrive/rabbitmq': ['amqplib'],
  'redrive/nats': ['@nats-io/transport-node', '@nats-io/jetstream', '@nats-io/kv'],
  'redrive/otel': ['@opentelemetry/api'],
  'redrive/metrics': ['prom-client'],
}

describe('a user who checks the types of libraries too', () => {
  const without = Object.keys(subpaths()).filter(name => !(name in PEERS))

  it.each([{ names: without, peers: [] }, ...Object.entries(PEERS).map(([name, peers]) => ({ names: [name], peers }))])(
    'needs only $peers for $names',
    { timeout: LONG_MS },
    async ({ names, peers }) => {
      const folder = mkdtempSync(join(tmpdir(), 'redrive-peers-'))
      onTestFinished(() => rmSync(folder, { recursive: true }))
      cpSync(join(consumer, 'node_modules/redrive'), join(folder, 'node_modules/redrive'), { recursive: true })
      for (const name of [...peers, '@types/node']) {
        mkdirSync(dirname(join(folder, 'node_modules', name)), { recursive: true })
        symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name))
      }
      writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
      const imports = names.map((name, index) => `export * as module${index} from '${name}'`)
      writeFileSync(join(folder, 'everything.ts'), `${imports.join('\n')}\n`)
      const compilerOptions = { ...STRICT, ...RESOLUTIONS.NodeNext }
      const config = join(folder, 'tsconfig.json')
      writeFileSync(config, JSON.stringify({ compilerOptions, include: ['*.ts'] }))
      expect(await problems(join(ROOT, 'node_modules/typescript/bin/tsc'), config)).toEqual([])
    },
  )
})

/** The errors in our declarations and in the consumer. Those in declarations of other packages are not ours. */
async function problems(tsc: string, config: string): Promise<string[]> {
  const { stdout } = await run(process.execPath, [tsc, '-p', config, '--pretty', 'false'], {
    cwd: consumer,
    maxBuffer: 2 ** 26,
  }).catch((error: { stdout: string; code: number }) => {
    if (error.code === 1 || error.code === 2) return error
    throw error
  })
  return stdout.split('\n').filter(line => /error TS/.test(line) && !/^\.*\/?.*node_modules\/(?!redrive\/)/.test(line))
}

const INFERENCE = /* ts */ `
  import { retry } from 'redrive'
  import { pipeline, stage } from 'redrive/pipeline'
  import { MemoryStore } from 'redrive/store'
  import { defineTask, TaskQueue } from 'redrive/task'

  export const user: { name: string } = await retry(async () => ({ name: 'Ada' }), { attempts: 3, timeout: '5s' })
  const send = defineTask('send', { handler: async ({ to }: { to: string }) => to.length })
  await new TaskQueue(new MemoryStore()).enqueue(send, { to: 'ada@example.com' })
  const double = pipeline('double', stage('parse', (text: string) => Number(text)), stage('double', (n: number) => n * 2))
  export const run = await double.run(['1'], { store: new MemoryStore() })
`

const WRONG = `import { retry } from 'redrive'
import { defineTask } from 'redrive/task'
export const user: { name: number } = await retry(async () => ({ name: 'Ada' }))
// The duration of a timeout has a unit.
await retry(() => 1, { timeout: 'five' })
export const task = defineTask('send', { handler: async ({ to }: { to: string }) => to.length })
`
