import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { retry } from '../call/index.js'
import { fakeClock } from '../testing/index.js'
import { type NdjsonAudit, ndjsonAudit } from './ndjson-audit.js'
import { emit, sinkFailures } from './sink.js'
import type { RetryScheduled } from './work-events.js'

// Warnings of failed sinks are expected here, and counted; they need not be printed.
process.removeAllListeners('warning')

let folder: string
let path: string
let audits: NdjsonAudit[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'redrive-audit-'))
  path = join(folder, 'audit.ndjson')
  audits = []
})
afterEach(async () => {
  await Promise.allSettled(audits.map(audit => audit.close()))
  await rm(folder, { recursive: true })
})

function open(...args: Parameters<typeof ndjsonAudit>): NdjsonAudit {
  const audit = ndjsonAudit(...args)
  audits.push(audit)
  return audit
}

function retryOf(message: string, attempt = 1): RetryScheduled {
  return {
    type: 'retry_scheduled',
    work: { kind: 'call', id: 'w-1', name: 'work' },
    at: 0,
    attempt,
    maxAttempts: 3,
    durationMs: 1,
    failure: new Error(message),
    verdict: { class: 'retryable', code: 'unknown' },
    delayMs: 1000,
    nextAttemptAt: 1000,
  }
}

async function lines(): Promise<string[]> {
  const text = await readFile(path, 'utf8')
  expect(text.endsWith('\n')).toBe(true)
  return text.slice(0, -1).split('\n')
}

async function messages(): Promise<string[]> {
  return (await lines()).map(line => JSON.parse(line).exception_message)
}

describe('an audit file', () => {
  test('has one line for each record of a call, in order', async () => {
    const audit = open(path)
    const clock = fakeClock()
    const fail = () => Promise.reject(new Error('boom'))
    const call = retry(fail, { attempts: 3 }, { clock, sink: audit }).catch(() => undefined)
    await clock.runAll()
    await call
    await audit.close()
    const records = (await lines()).map(line => JSON.parse(line))
    expect(records.map(record => [record.event_type, record.attempt_number ?? record.total_attempts])).toEqual([
      ['retry_attempt', 1],
      ['retry_attempt', 2],
      ['retry_exhausted', 3],
    ])
    expect(sinkFailures(audit)).toBe(0)
  })

  test('keeps the order of a burst, and writes it as one batch', async () => {
    const audit = open(path)
    const burst = Array.from({ length: 5000 }, (_, i) => String(i))
    const written = burst.map(message => audit(retryOf(message)))
    await Promise.all(written)
    expect(await messages()).toEqual(burst)
    expect(new Set(written).size).toBe(1)
  })

  test('has a line on file when the promise of its event resolves', async () => {
    const audit = open(path)
    await audit(retryOf('first'))
    expect(await messages()).toEqual(['first'])
    await audit(retryOf('second'))
    expect(await messages()).toEqual(['first', 'second'])
  })

  test('holds nothing that could drive a terminal or end a line, and parses back', async () => {
    const audit = open(path)
    const odd = 'a\nb\r\u001b[2J\u007f\u0085\u009b31m\u2028\u2029\u202e\u2066\ud800\0"\\'
    const event = retryOf(odd)
    emit(audit, { ...event, work: { ...event.work, name: odd, tenantId: odd } })
    await audit.flush()
    const [line = '', ...others] = await lines()
    expect(others).toEqual([])
    expect(line).toMatch(/^[\u0020-\u007e\ufffd]+$/)
    expect(JSON.parse(line).operation).toMatch(/^a b .*"\\$/)
  })

  test('is readable for its owner alone, and so is a folder made for it', async () => {
    path = join(folder, 'new', 'deeper', 'audit.ndjson')
    await open(path)(retryOf('x'))
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect((await stat(join(folder, 'new'))).mode & 0o777).toBe(0o700)
  })

  test('is not made before there is something to write', async () => {
    const audit = open(path)
    await audit.flush()
    await audit.close()
    await expect(stat(path)).rejects.toMatchObject({ code: 'ENOENT' })
  })

  test('goes on after what was there', async () => {
    await writeFile(path, '{"exception_message":"old"}\n')
    await open(path)(retryOf('new'))
    expect(await messages()).toEqual(['old', 'new'])
  })

  test('has a torn last line closed before the next, at the start and later', async () => {
    await writeFile(path, '{"exception_message":"whole"}\n{"exception_mes')
    const audit = open(path)
    await audit(retryOf('next'))
    await appendFile(path, '{"torn by another pro')
    await audit(retryOf('last'))
    const found = await lines()
    expect(found).toHaveLength(5)
    expect([found[1], found[3]]).toEqual(['{"exception_mes', '{"torn by another pro'])
    expect([2, 4].map(i => JSON.parse(found[i] ?? '').exception_message)).toEqual(['next', 'last'])
  })

  test('may be moved away or removed: the next record begins a new one', async () => {
    const audit = open(path)
    await audit(retryOf('before'))
    await rename(path, `${path}.1`)
    await audit(retryOf('after'))
    expect(await messages()).toEqual(['after'])
    await rm(path)
    await audit(retryOf('again'))
    expect(await messages()).toEqual(['again'])
  })
})

describe('an audit file that cannot be written', () => {
  test('rejects, keeps the records, and has them all in order once it can be written', async () => {
    await mkdir(path)
    const audit = open(path)
    for (const message of ['one', 'two', 'three']) emit(audit, retryOf(message))
    await expect(audit.flush()).rejects.toMatchObject({ code: 'write_failed', cause: { code: 'EISDIR' } })
    await expect(audit.flush()).rejects.toThrow(/EISDIR.*3 lines wait for the next write/)
    expect(sinkFailures(audit)).toBe(3)

    await rmdir(path)
    await audit(retryOf('four'))
    expect(await messages()).toEqual(['one', 'two', 'three', 'four'])
    expect([sinkFailures(audit), audit.dropped]).toEqual([3, 0])
  })

  test('can be closed again after close() has failed, and loses nothing', async () => {
    await mkdir(path)
    const audit = open(path)
    emit(audit, retryOf('kept'))
    await expect(audit.close()).rejects.toThrow('1 line waits')
    await rmdir(path)
    await audit.close()
    expect(await messages()).toEqual(['kept'])
  })

  test('follows a link to a file, and creates none through a link', async () => {
    const target = `${path}.target`
    await symlink(target, path)
    const audit = open(path)
    await expect(audit(retryOf('one'))).rejects.toMatchObject({ code: 'write_failed' })
    await expect(readFile(target)).rejects.toMatchObject({ code: 'ENOENT' })
    await writeFile(target, '')
    await audit(retryOf('two'))
    expect(await messages()).toEqual(['one', 'two'])
  })

  test.skipIf(process.platform !== 'linux')('recovers from a full disk', async () => {
    await symlink('/dev/full', path)
    const audit = open(path)
    await expect(audit(retryOf('one'))).rejects.toMatchObject({ cause: { code: 'ENOSPC' } })
    await rm(path)
    await audit(retryOf('two'))
    expect(await messages()).toEqual(['one', 'two'])
  })

  test('drops what memory has no room for, counts it, and says so in the file where it is missing', async () => {
    await mkdir(path)
    const audit = open(path, { maxWaitingBytes: 1000 })
    for (let i = 0; i < 10; i++) emit(audit, retryOf(`m${i}`))
    await audit.flush().catch(() => undefined)
    expect(sinkFailures(audit)).toBe(10)
    expect(audit.dropped).toBeGreaterThan(0)

    await rmdir(path)
    const kept = 10 - audit.dropped
    // Refused as well, but it is what finds out that the file can be written again.
    expect(() => audit(retryOf('refused'))).toThrow(/\d+ of the 1000 bytes that may wait are taken/)
    await vi.waitFor(async () => expect(await lines()).toHaveLength(kept), { timeout: 10_000 })
    await audit(retryOf('accepted'))
    const records = (await lines()).map(line => JSON.parse(line))
    expect(records.slice(0, kept).map(record => record.exception_message)).toEqual(
      Array.from({ length: kept }, (_, i) => `m${i}`),
    )
    expect(records.slice(kept)).toMatchObject([
      { event_type: 'records_dropped', count: audit.dropped, timestamp: '1970-01-01T00:00:00.000Z' },
      { exception_message: 'accepted' },
    ])
  })

  test('tells of what it dropped at the latest when it is closed', async () => {
    const audit = open(path, { maxWaitingBytes: 10 })
    emit(audit, retryOf('too large'))
    await audit.close()
    expect((await lines()).map(line => JSON.parse(line))).toMatchObject([{ event_type: 'records_dropped', count: 1 }])
  })
})

test('a closed audit refuses events with a clear error', async () => {
  const audit = open(path)
  await audit.close()
  expect(() => audit(retryOf('late'))).toThrow(`The audit file '${path}' is closed: emit events before close().`)
})

test('a limit that is none is refused', () => {
  expect(() => ndjsonAudit(path, { maxWaitingBytes: Number.NaN })).toThrow(`'maxWaitingBytes' must be`)
})

describe('in a process of its own', () => {
  /** Writes one record for each number, ten at a time; `onFailure` is code for when a write fails. */
  const script = (onFailure: string) => `
    import { existsSync, renameSync, writeFileSync } from 'node:fs'
    import { setTimeout } from 'node:timers/promises'
    const [, module, path, name, count, size, ...peers] = process.argv
    const { ndjsonAudit } = await import(module)
    const audit = ndjsonAudit(path)
    let files = 0
    const onFailure = error => { ${onFailure} }

    // All begin together, once each has loaded.
    writeFileSync(path + '.' + name, '')
    while (peers.some(peer => !existsSync(path + '.' + peer))) await setTimeout(2)

    for (let i = 0; i < count; i++) {
      const work = { kind: 'call', id: '1', name: name + ' ' + i + ' ' + 'x'.repeat(size * (i % 7)) }
      const written = audit({ type: 'idempotency_hit', work, at: 0, key: 'k' })
      if (i % 10 === 0) await written.catch(onFailure)
      else written.catch(() => {})
    }
    for (let isOpen = true; isOpen; ) await audit.close().then(() => { isOpen = false }, onFailure)
  `
  const module = fileURLToPath(new URL('./ndjson-audit.ts', import.meta.url))
  const node = (code: string) => [process.execPath, '--import', 'tsx', '--input-type=module', '-e', code, module, path]

  async function run(command: string[]): Promise<void> {
    const [program = '', ...args] = command
    const [status] = await once(spawn(program, args, { stdio: 'inherit' }), 'close')
    expect(status).toBe(0)
  }

  const numbersOf = (found: string[][], name: string) =>
    found.filter(([who]) => who === name).map(([, number]) => Number(number))

  test('and others beside it, whole lines interleave, each process in its own order', async () => {
    const names = ['a', 'b', 'c']
    const command = node(script('throw error'))
    await Promise.all(names.map(name => run([...command, name, '400', '3000', ...names])))
    const found: string[][] = (await lines()).map(line => JSON.parse(line).operation.split(' '))
    expect(found).toHaveLength(1200)
    for (const name of names) expect(numbersOf(found, name)).toEqual(Array.from({ length: 400 }, (_, i) => i))
    const turns = found.filter(([who], i) => who !== found[i - 1]?.[0])
    expect(turns.length).toBeGreaterThan(names.length)
  })

  test.skipIf(process.platform === 'win32')('a write that is cut short loses and repeats no line', async () => {
    // The shell limits the size of a file (to 8 blocks of 512 bytes), so that writes really end within a line. When one
    // does, the file is moved out of the way, and what is left goes into the next.
    const rotate = `if (existsSync(path)) renameSync(path, path + '.full.' + files++)`
    await run(['sh', '-c', 'ulimit -f 8; exec "$@"', 'sh', ...node(script(rotate)), 'limited', '60', '20'])
    const full = (await readdir(folder)).filter(file => file.includes('.full.')).sort()
    expect(full.length).toBeGreaterThan(1)
    const texts = await Promise.all([...full, 'audit.ndjson'].map(file => readFile(join(folder, file), 'utf8')))
    const whole = texts.flatMap(text => text.split('\n').slice(0, -1))
    expect(texts.some(text => !text.endsWith('\n'))).toBe(true)
    const found: string[][] = whole.map(line => JSON.parse(line).operation.split(' '))
    expect(numbersOf(found, 'limited')).toEqual(Array.from({ length: 60 }, (_, i) => i))
  })
})
