import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCommand } from '../../../../test/command.js'
import type { NewTask } from '../../../store/index.js'
import type { RunSettings, StoreContract } from '../../../store/internal.js'
import { openSqlite } from '../../../store/sqlite/internal.js'

import type { Environment } from '../../environment.js'

const TASK = JSON.stringify(new URL('../../../task/index.ts', import.meta.url).pathname)
const PIPELINE = JSON.stringify(new URL('../../../pipeline/index.ts', import.meta.url).pathname)
const SCHEDULE = JSON.stringify(new URL('../../../schedule/index.ts', import.meta.url).pathname)
const POLICY = JSON.stringify(new URL('../../../policy/index.ts', import.meta.url).pathname)

const SETTINGS: RunSettings = {
  failureBudget: 1,
  stageBudgets: {},
  checkInterval: 1000,
  budgetWindow: undefined,
  completedFrom: 0.95,
  partialFrom: 0.5,
  maxUnfinished: 1000,
  concurrency: {},
}

/** Each kind does what its name says. */
const TASKS = /* ts */ `
  import { FinalError } from ${POLICY}
  import { defineTask } from ${TASK}
  const policy = { attempts: 3, backoff: { base: '10ms' } }
  export const works = defineTask('works', { handler: () => 'done' })
  export const flaky = defineTask('flaky', {
    policy,
    handler: (_: unknown, { attempt }) => {
      if (attempt < 3) throw new Error('not yet')
    },
  })
  export const broken = defineTask('broken', { policy, handler: () => { throw new FinalError('never') } })
  const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))
  export const slow = defineTask('slow', { handler: (ms: number) => sleep(ms) })
  export const notATask = { kind: 'nothing' }
`

let folder: string
const children: ChildProcess[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(folder, 'tasks.ts'), TASKS)
})
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

async function inStore<T>(use: (store: StoreContract) => Promise<T>): Promise<T> {
  const store = await openSqlite(join(folder, '.redrive/redrive.db'))
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}

const enqueue = (...tasks: NewTask[]) => inStore(store => store.enqueue(tasks))
const count = () => inStore(store => store.count({}))

/** Runs the command in the test's folder. */
const redrive = (argv: readonly string[], overrides: Partial<Environment> = {}) =>
  runCommand(argv, { cwd: folder, ...overrides })

describe('a worker that stops when nothing is left', () => {
  it('logs a few dead letters one by one, and sums up the rest', async () => {
    await enqueue(...Array.from({ length: 12 }, (_, i) => ({ id: `b${i}`, kind: 'broken', payload: '{}' })))
    const { err } = await redrive(['worker', 'tasks.ts', '--until-empty'])
    expect(err.match(/Gave up on 'broken'/g)).toHaveLength(5)
    expect(err).toMatch(
      /^\d{4}-\d\d-\d\dT[\d:.]+Z error 7 more dead letters of 'broken', code final\. To see why, run: redrive groups ls$/m,
    )
    expect(err).toContain('12 dead.\n')
  })

  it('declares the schedules that the module exports', async () => {
    const module = `
      import { schedule } from ${SCHEDULE}
      import { defineTask } from ${TASK}
      export const tick = defineTask('tick', { handler: (_: null) => 'done' })
      export const nightly = schedule('nightly', { cron: '30 2 * * *', task: tick })
    `
    writeFileSync(join(folder, 'schedules.ts'), module)
    const { code, err } = await redrive(['worker', 'schedules.ts', '--until-empty'])
    expect(code).toBe(0)
    expect(err).toContain('and declares nightly.')
    const declared = await inStore(store => store.schedules.get('nightly'))
    expect(declared).toMatchObject({ times: { cron: '30 2 * * *' }, task: { kind: 'tick', payload: 'null' } })
  })

  it('forgets what has been over for longer than --keep, and dead letters only with --keep-dead', async () => {
    const pass = (...flags: string[]) => redrive(['worker', 'tasks.ts', '--until-empty', ...flags])
    await enqueue({ id: 'w', kind: 'works', payload: '{}' }, { id: 'b', kind: 'broken', payload: '{}' })
    await pass()
    await enqueue({ id: 's', kind: 'slow', payload: '200' })
    await pass('--keep', '1d', '--keep-dead', '1d')
    expect(await count()).toMatchObject({ succeeded: 2, dead: 1 })
    await enqueue({ id: 't', kind: 'slow', payload: '200' })
    await pass('--keep', '0s')
    expect(await inStore(store => store.get('w'))).toBeUndefined()
    expect(await count()).toMatchObject({ dead: 1 })
    await enqueue({ id: 'u', kind: 'slow', payload: '200' })
    await pass('--keep-dead', '0s')
    expect(await count()).toMatchObject({ dead: 0 })
  })

  it('runs what there is, logs each attempt, and ends with 0', async () => {
    await enqueue({ id: 'w', kind: 'works', payload: '{}' }, { id: 'f', kind: 'flaky', payload: '{}' })
    const { code, out, err } = await redrive(['worker', 'tasks.ts', '--until-empty', '--verbose', '--output', 'json'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toEqual({ succeeded: 2, retries: 2, deferrals: 0, dead: 0 })
    expect(err).toMatch(/^\d{4}-\S+Z debug First attempt at 'works' starts \(attempt 1 of 8\) \[w\]$/m)
    expect(err).toMatch(/ info {2}Attempt 1 of 3 at 'flaky' failed: Error: not yet\. Retry in 10ms, at \S+Z \[f\]$/m)
    expect(err).toMatch(/ debug Retry at 'flaky' starts \(attempt 3 of 3\) \[f\]$/m)
    expect(err).toContain('Stopped: 2 succeeded, 2 retries scheduled, 0 dead.')
    expect(await count()).toMatchObject({ succeeded: 2, waiting: 0, running: 0 })
  })

  it('serves metrics of its tasks and of the store on loopback, with --metrics-port', async () => {
    await enqueue({ kind: 'works', payload: '{}' }, { kind: 'unknown', payload: '{}' })
    let [said, stop] = ['', (_: string) => {}]
    const onSignal = (callback: (signal: string) => void) => {
      stop = callback
      return () => {}
    }
    const stderr = { write: (text: string) => (said += text) }
    const running = redrive(['worker', 'tasks.ts', '--metrics-port', '0'], { onSignal, stderr })
    await expect.poll(() => said).toMatch(/Worker \S+ runs/)
    const [, url = ''] = /Metrics are at (http:\/\/127\.0\.0\.1:\d+\/metrics)/.exec(said) ?? []
    const scrape = async () => (await fetch(url)).text()
    await expect.poll(scrape).toContain('redrive_attempts_total{kind="works",category="",outcome="succeeded"} 1')
    const text = await scrape()
    expect(text).toContain('redrive_ready{kind="unknown",category=""} 1')
    expect(text).toContain('redrive_workers 1')
    stop('SIGTERM')
    expect((await running).code).toBe(0)
    await expect(fetch(url)).rejects.toThrow()
  })

  it('sends messages where the configuration says so', async () => {
    let received = ''
    const server = createServer(async (request, response) => {
      for await (const chunk of request) received += chunk
      response.end()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const notify = JSON.stringify(new URL('../../../notify/index.ts', import.meta.url).pathname)
    const config = `import { slack } from ${notify}
      export default { notify: { to: slack('http://127.0.0.1:${port}/hunter2'), oldestAge: '1h' } }`
    writeFileSync(join(folder, 'redrive.config.ts'), config)
    await enqueue({ kind: 'nobody-runs-it', payload: '{}', runAt: 0 }, { kind: 'slow', payload: '1000' })
    const { code, err } = await redrive(['worker', 'tasks.ts', '--until-empty', '--verbose'])
    server.close()
    expect({ code, received }).toEqual({
      code: 0,
      received: expect.stringContaining('of nobody-runs-it has waited for'),
    })
    expect(err).not.toContain('hunter2')
  })

  it('says which option of notify is wrong, and starts nothing', async () => {
    writeFileSync(join(folder, 'redrive.config.ts'), 'export default { notify: { to: [], oldestage: "1h" } }')
    const { code, err } = await redrive(['worker', 'tasks.ts', '--until-empty'])
    expect(code).not.toBe(0)
    expect(err).toContain("'oldestAge'")
  })

  it('refuses a port that is taken, and leaves the store alone', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const { code, err } = await redrive(['worker', 'tasks.ts', '--until-empty', '--metrics-port', String(port)])
    server.close()
    expect(code).toBe(1)
    expect(err).toContain(`listen EADDRINUSE: address already in use 127.0.0.1:${port}`)
    expect(await count()).toMatchObject({ waiting: 0 })
  })

  it('logs dead letters alone, and ends with 3 if there were any', async () => {
    await enqueue({ kind: 'works', payload: '{}' }, { kind: 'broken', payload: '{}' })
    const { code, out, err } = await redrive(['worker', 'tasks.ts', '--until-empty'])
    expect({ code, out }).toEqual({ code: 3, out: '' })
    expect(err).not.toContain('First attempt')
    const lines = err.trimEnd().split('\n')
    expect(lines).toHaveLength(5)
    expect(lines[0]).toMatch(
      /^Worker \S+ runs broken, flaky, slow, works of sqlite:\S+, up to 10 at once\. Ctrl-C stops it\.$/,
    )
    expect(lines[1]).toMatch(/ error Gave up on 'broken' \(final_error\)/)
    expect(lines.slice(2)).toEqual([
      'No task is waiting or running any more.',
      'Stopped: 1 succeeded, 0 retries scheduled, 1 dead.',
      'To see the dead letters, run: redrive dlq ls',
    ])
  })

  it('says what it waits for if nothing can run', async () => {
    await enqueue(
      { id: 'later', kind: 'works', payload: '{}', runAt: Date.now() + 3_600_000 },
      { id: 'p', kind: 'flaky', payload: '{}' },
      { id: 'q', kind: 'flaky', payload: '{}' },
    )
    await inStore(store => store.pause({ kind: 'flaky' }, { isPaused: true }))
    let said = ''
    const stderr = { write: (text: string) => (said += text) }
    const running = redrive(['worker', 'tasks.ts', '--until-empty'], { stderr })
    await expect.poll(() => said, { timeout: 20_000 }).toContain('paused lanes')
    expect(said).toMatch(/^1 task waits until \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(in (1h|59m.*)\)\.$/m)
    expect(said).toMatch(/^2 tasks wait in paused lanes: redrive lane ls --state paused$/m)
    await inStore(store => store.cancel(['later', 'p', 'q']))
    expect(await running).toMatchObject({ code: 0 })
  })

  it('leaves other kinds and categories alone', async () => {
    await enqueue(
      { id: 'mine', kind: 'works', category: 'a', payload: '{}' },
      { id: 'category', kind: 'works', category: 'b', payload: '{}' },
      { id: 'kind', kind: 'flaky', category: 'a', payload: '{}' },
      { id: 'unknown', kind: 'unknown', category: 'a', payload: '{}' },
    )
    const flags = ['--until-empty', '--kind', 'works', '--category', 'a', '--category', 'c']
    expect(await redrive(['worker', 'tasks.ts', ...flags])).toMatchObject({ code: 0 })
    expect(await count()).toMatchObject({ succeeded: 1, waiting: 3 })
    expect(await inStore(store => store.get('mine'))).toMatchObject({ status: 'succeeded' })
  })

  it('makes the store if there is none', async () => {
    expect(await redrive(['worker', 'tasks.ts', '--until-empty', '--store', 'sqlite:new/x.db'])).toMatchObject({
      code: 0,
    })
    expect(existsSync(join(folder, 'new/x.db'))).toBe(true)
  })
})

describe('a worker that drains', () => {
  const drain = (...flags: string[]) => redrive(['worker', 'tasks.ts', '--drain', '--output', 'json', ...flags])

  it('runs what is due, with its retries, and leaves the rest', async () => {
    await enqueue(
      { kind: 'works', payload: '{}' },
      { kind: 'flaky', payload: '{}' },
      { kind: 'works', payload: '{}', runAt: Date.now() + 3_600_000 },
    )
    const { code, err, json } = await drain()
    expect({ code, json: json() }).toEqual({
      code: 0,
      json: { succeeded: 2, retries: 2, deferrals: 0, dead: 0, ended: 'empty' },
    })
    expect(err).toContain('Nothing is due any more.\nStopped: 2 succeeded')
    expect(await count()).toMatchObject({ succeeded: 2, waiting: 1, running: 0 })
    expect(await redrive(['worker', 'ls'])).toMatchObject({ err: 'No worker is running.\n' })
  })

  it('ends with 3 if tasks became dead letters', async () => {
    await enqueue({ kind: 'broken', payload: '{}' })
    expect(await drain()).toMatchObject({ code: 3 })
  })

  it('claims no more than --max, and no longer than until --deadline', async () => {
    const three = ['a', 'b', 'c'].map(id => ({ id, kind: 'works', payload: '{}' }))
    await enqueue(...three)
    const some = await drain('--max', '2')
    expect({ code: some.code, json: some.json() }).toMatchObject({ code: 0, json: { succeeded: 2, ended: 'max' } })
    await enqueue({ id: 'hangs', kind: 'slow', payload: '3600000' })
    const rest = await drain('--deadline', '100ms', '--grace', '0s')
    expect({ code: rest.code, json: rest.json() }).toMatchObject({ code: 0, json: { ended: 'deadline' } })
    expect(await inStore(store => store.get('hangs'))).toMatchObject({ status: 'waiting', attempts: 0 })
  })

  it('keeps slots for a kind with --reserve, however many tasks of other kinds come first', async () => {
    await enqueue(...['a', 'b', 'c'].map(id => ({ id, kind: 'slow', payload: '1' })), {
      id: 'd',
      kind: 'works',
      payload: '{}',
    })
    expect(await drain('--concurrency', '2', '--reserve', 'works=1', '--max', '2')).toMatchObject({ code: 0 })
    const counts = await inStore(store => Promise.all(['slow', 'works'].map(kind => store.count({ kind }))))
    expect(counts).toMatchObject([{ succeeded: 1, waiting: 2 }, { succeeded: 1 }])
    const unknown = await drain('--reserve', 'wroks=1')
    expect(unknown.err).toContain("'reserve' names the kind 'wroks', which is no task of this worker.")
    expect((await drain('--reserve', 'works')).err).toContain("such as 'send-email=2'")
  })

  it('is refused together with --until-empty, and has --deadline and --max to itself', async () => {
    expect(await drain('--until-empty')).toMatchObject({ code: 2 })
    const { code, err } = await redrive(['worker', 'tasks.ts', '--max', '2'])
    expect(code).toBe(2)
    expect(err).toContain('--deadline and --max are for a drain. Add --drain.')
  })
})

describe('the module of a worker', () => {
  const load = async (source: string, ...flags: string[]) => {
    writeFileSync(join(folder, 'mine.ts'), source)
    return redrive(['worker', 'mine.ts', '--until-empty', ...flags])
  }

  it('may export a list as its default', async () => {
    await enqueue({ kind: 'a', payload: '{}' })
    const source = `import { defineTask } from ${TASK}\nexport default [defineTask('a', { handler: () => 1 })]`
    expect(await load(source)).toMatchObject({ code: 0 })
    expect(await count()).toMatchObject({ succeeded: 1 })
  })

  it.each([
    ['export const x = 1', 'exports no tasks, pipelines or schedules'],
    ['export default [{}]', 'Item 0 of the default export'],
    ['throw new Error("no database")', 'cannot be loaded: Error: no database'],
    [
      `import { defineTask } from ${TASK}\nconst handler = () => 1\nexport const a = defineTask('a', { handler }), b = defineTask('a', { handler })`,
      "defines the kind 'a' twice",
    ],
  ])('is refused in words: %s', async (source, text) => {
    const { code, err } = await load(source)
    expect(code).toBe(1)
    expect(err).toContain(text)
    expect(existsSync(join(folder, '.redrive'))).toBe(false)
  })

  it('may export pipelines, whose items it works on beside tasks', async () => {
    const source = `
      import { pipeline, stage } from ${PIPELINE}
      import { defineTask } from ${TASK}
      export const plain = defineTask('plain', { handler: () => 1 })
      export const double = pipeline('double', [stage('double', (n: number) => 2 * n)])
      export default [pipeline('other', [stage('same', (n: number) => n)])]`
    await inStore(async store => {
      for (const [pipeline, name] of Object.entries({ double: 'double', other: 'same' })) {
        await store.runs.open({ id: pipeline, pipeline, version: '1', stages: [name], settings: SETTINGS })
        const items = [{ payload: '1' }, { payload: '2' }]
        await store.runs.take(pipeline, { reader: 'r', leaseMs: 1000, position: 0, items, isEnd: true })
      }
    })
    await enqueue({ kind: 'plain', payload: '{}' })
    const status = (run: string) => inStore(async store => (await store.runs.get(run))?.status)
    const first = await load(source, '--pipeline', 'double')
    expect(first).toMatchObject({ code: 0 })
    expect(first.err).toContain('works on items of double of sqlite:')
    expect([await status('double'), await status('other')]).toEqual(['completed', 'running'])
    expect(await count()).toMatchObject({ waiting: 3 })
    const rest = await load(source)
    expect(rest.err).toMatch(/runs plain of .*, up to 10 at once, and works on items of double, other\./)
    expect(await status('other')).toBe('completed')
    expect(await count()).toMatchObject({ waiting: 0, succeeded: 5 })
    expect((await load(source, '--pipeline', 'triple')).err).toContain(
      "no pipeline 'triple'. It defines: double, other.",
    )
  })

  it('must be there, and define what --kind names', async () => {
    expect(await redrive(['worker', 'no.ts'])).toMatchObject({ code: 2 })
    const { code, err } = await redrive(['worker', 'tasks.ts', '--kind', 'wroks'])
    expect(code).toBe(2)
    expect(err).toContain("no task of kind 'wroks'. It defines: broken, flaky, slow, works")
  })
})

describe('a worker in a process of its own', { timeout: 60_000 }, () => {
  const MAIN = new URL('../../main.ts', import.meta.url).pathname
  const TSX = import.meta.resolve('tsx')

  /** Starts the command, and resolves with what it said once it has said `text`. */
  function start(...argv: string[]) {
    const child = spawn(process.execPath, ['--import', TSX, MAIN, ...argv], { cwd: folder })
    children.push(child)
    const said = { out: '', err: '' }
    child.stdout.on('data', data => (said.out += data))
    child.stderr.on('data', data => (said.err += data))
    const ended = new Promise<number | null>(resolve => child.on('close', resolve))
    const says = async (text: string) => {
      while (!said.err.includes(text)) await new Promise(resolve => setTimeout(resolve, 10))
    }
    return { child, said, ended, says }
  }

  it('lets running tasks end when it is told to stop, and claims no more', async () => {
    await enqueue({ id: 'a', kind: 'slow', payload: '2000' }, { id: 'b', kind: 'slow', payload: '2000' })
    const { child, said, ended, says } = start('worker', 'tasks.ts', '--concurrency', '1', '--verbose')
    await says('First attempt')
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
    expect(said.err).toContain('SIGTERM: stopping')
    expect(said.err).toContain('Stopped: 1 succeeded')
    expect(await count()).toMatchObject({ succeeded: 1, waiting: 1, running: 0 })
  })

  it('is listed with its release and its kinds while it is alive', async () => {
    writeFileSync(join(folder, 'package.json'), '{ "type": "module", "version": "1.8.0" }')
    await enqueue({ id: 'a', kind: 'works', payload: '{}' })
    const { child, ended, says } = start('worker', 'tasks.ts', '--kind', 'works', '--verbose')
    await says('First attempt')
    const listed = await redrive(['worker', 'ls'])
    expect(listed.out).toMatch(/NAME +RELEASE +STARTED +HEARTBEAT +HOST\n.* 1\.8\.0 .*\n {2}runs works\n$/)
    const json = await redrive(['worker', 'ls', '--output', 'json'])
    expect(json.json()).toMatchObject([{ release: '1.8.0', kinds: ['works'], categories: null, host: hostname() }])
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
    expect(await redrive(['worker', 'ls'])).toMatchObject({ out: '', err: 'No worker is running.\n' })
  })

  it('hands back what does not end within the grace period, at no cost, and ends though its handler goes on', async () => {
    await enqueue({ id: 'a', kind: 'slow', payload: '3600000' })
    const { child, ended, says } = start('worker', 'tasks.ts', '--grace', '100ms', '--verbose')
    await says('First attempt')
    child.kill('SIGINT')
    expect(await ended).toBe(0)
    expect(await inStore(store => store.get('a'))).toMatchObject({ status: 'waiting', attempts: 0, losses: 0 })
  })

  it('ends at once at the second signal', async () => {
    await enqueue({ id: 'a', kind: 'slow', payload: '3600000' })
    const { child, said, ended, says } = start('worker', 'tasks.ts', '--grace', '1h', '--verbose')
    await says('First attempt')
    child.kill('SIGINT')
    await says('SIGINT: stopping')
    await new Promise(resolve => setTimeout(resolve, 300))
    expect(child.exitCode).toBeNull()
    child.kill('SIGINT')
    expect(await ended).toBe(1)
    expect(said.err).toContain('Ended at once')
    expect(await count()).toMatchObject({ running: 1 })
  })

  it('goes on when nobody reads what it says any more', async () => {
    await enqueue(...Array.from({ length: 3 }, (_, i) => ({ id: `t${i}`, kind: 'slow', payload: '300' })))
    const { child, ended, says } = start('worker', 'tasks.ts', '--until-empty', '--concurrency', '1', '--verbose')
    await says('First attempt')
    child.stderr?.destroy()
    expect(await ended).toBe(0)
    expect(await count()).toMatchObject({ succeeded: 3, running: 0 })
  })

  it('writes all of a long list into a pipe, and is content when nobody reads it to its end', async () => {
    await enqueue(...Array.from({ length: 3000 }, (_, i) => ({ id: `t${i}`, kind: 'k', payload: '{}' })))
    const all = start('task', 'ls', '--limit', '10000', '--output', 'jsonl')
    expect(await all.ended).toBe(0)
    expect(all.said.out.trimEnd().split('\n')).toHaveLength(3000)
    const cut = start('task', 'ls', '--limit', '10000', '--output', 'jsonl')
    cut.child.stdout?.destroy()
    expect(await cut.ended).toBe(0)
    expect(cut.said.err).toBe('')
  })
})
