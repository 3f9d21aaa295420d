import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { quietEnvironment, runCommand } from '../../../../test/command.js'
import { openSqlite, type SqliteStore } from '../../../store/sqlite/internal.js'
import { defineTask, TaskQueue, Worker } from '../../../task/index.js'
import { run } from '../../run.js'

let folder: string
let store: SqliteStore
let queue: TaskQueue
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
  store = await openSqlite(join(folder, 'redrive.db'))
  queue = new TaskQueue(store)
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

const failing = defineTask('import', {
  policy: { attempts: 1 },
  handler: (_: null, { log, progress }) => {
    log('opened https://ada:hunter2@example.com/rows')
    log('page 3\n\u001b[2J\u202edone')
    progress(0.4, 'page 3 of 8')
    throw new Error('connection reset')
  },
})

function command(...argv: readonly string[]): string[] {
  return [...argv, '--store', `sqlite:${join(folder, 'redrive.db')}`]
}

it('shows how far a dead letter had come, and its last lines', async () => {
  await queue.enqueue(failing, null, { id: 'a' })
  await new Worker(store, { tasks: [failing], name: 'w1' }).drain()
  for (const show of ['dlq', 'task']) {
    const { out } = await runCommand(command(show, 'show', 'a'), { cwd: folder })
    expect(out).toMatch(
      /Attempt 1 at 40 %: page 3 of 8 \(ended .*\)\n {2}\d\d:\d\d:\d\dZ {2}opened https:\/\/ada:\[redacted\]@example.com\/rows\n {2}\d\d:\d\d:\d\dZ {2}page 3 .\[2J.done\n/u,
    )
    expect(out).toContain('was at 40 %: page 3 of 8')
    expect(out).not.toMatch(/[\u001b\u202e]|hunter2/)
  }
  const { json } = await runCommand(command('dlq', 'show', 'a', '--output', 'json'), { cwd: folder })
  expect(json()).toMatchObject({
    notes: { attempt: 1, isRunning: false, progress: { fraction: 0.4, text: 'page 3 of 8' } },
    history: [{ progress: { fraction: 0.4 }, log: [{}, { text: 'page 3 \ufffd[2J\ufffddone' }] }],
  })
})

it('wraps a long line of the log behind its time', async () => {
  const words = Array.from({ length: 30 }, (_, n) => `word-${n}`).join(' ')
  const wordy = defineTask('wordy', {
    policy: { attempts: 1 },
    handler: (_: null, { log }) => {
      log(words)
      throw new Error('connection reset')
    },
  })
  await queue.enqueue(wordy, null, { id: 'a' })
  await new Worker(store, { tasks: [wordy], name: 'w1' }).drain()
  const isTTY = { stdin: true, stdout: true, stderr: true }
  const { out } = await runCommand(command('task', 'show', 'a'), { cwd: folder, isTTY, columns: 80 })
  expect(out).toMatch(/\n {2}\d\d:\d\d:\d\dZ {2}word-0 .*\n {13}word-/)
})

describe('task show --watch', () => {
  /** Runs the command until the task has ended, and calls back with what it has printed so far. */
  function watching(onPrint: (text: string) => void, ...more: readonly string[]) {
    let out = ''
    const write = (text: string) => {
      out += text
      onPrint(out)
    }
    const environment = quietEnvironment({ stdout: { write }, cwd: folder })
    return run(command('task', 'show', 'a', '--watch', ...more), environment).then(code => ({ code, out }))
  }

  it('prints what is new until the task has ended', async () => {
    let hasSeen = () => {}
    const seen = new Promise<void>(resolve => {
      hasSeen = resolve
    })
    const task = defineTask('import', {
      handler: async (_: null, { log, progress }) => {
        log('first')
        progress(0.5, 'half')
        await seen
        return 'all rows'
      },
    })
    await queue.enqueue(task, null, { id: 'a' })
    const watched = watching(text => {
      if (text.includes('Task a  waiting')) void worker.start()
      if (text.includes('first') && text.includes('50 %: half')) hasSeen()
    })
    const worker = new Worker(store, { tasks: [task], name: 'w1', lease: '300ms' })
    const { code, out } = await watched
    await worker.stop()
    expect(code).toBe(0)
    expect(out.match(/first/g)).toHaveLength(1)
    expect(out.match(/50 %: half/g)).toHaveLength(1)
    expect(out.trimEnd().split('\n').at(-1)).toBe('succeeded')
  })

  it('prints a task that has ended once, and each change as JSON for programs', async () => {
    await queue.enqueue(failing, null, { id: 'a' })
    await new Worker(store, { tasks: [failing], name: 'w1' }).drain()
    const { out } = await watching(() => {}, '--output', 'jsonl')
    expect(JSON.parse(out)).toMatchObject({ id: 'a', status: 'dead' })
    const shown = await runCommand(command('task', 'show', 'a'), { cwd: folder })
    const withoutAges = (text: string) => text.replaceAll(/\(\d+s ago\)/g, '')
    expect(withoutAges((await watching(() => {})).out)).toBe(withoutAges(shown.out))
  })

  it('says that the worker of the task died', async () => {
    const id = 'a'
    await queue.enqueue(failing, null, { id })
    const rooms = [{ kinds: ['import'] }]
    await store.claim({ worker: 'killed', leaseMs: 1, rooms, limit: 1, isIdle: false })
    const worker = new Worker(store, { tasks: [failing], name: 'w1', lease: '300ms' })
    const { out } = await watching(text => {
      if (text.includes('Task a  running')) void worker.start()
    })
    await worker.stop()
    expect(out).toContain('No attempt has ended yet.')
    expect(out.match(/^lost: its worker died$/gm)).toHaveLength(1)
  })

  it('says that there is no such task', async () => {
    const { code, err } = await runCommand(command('task', 'show', 'nobody', '--watch'), { cwd: folder })
    expect([code, err]).toEqual([1, expect.stringContaining("There is no task 'nobody'")])
  })
})
