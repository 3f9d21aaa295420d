import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { TaskRecord } from '../store/index.js'
import { MemoryStore, type OutputRow, type RunRecord, type RunStore } from '../store/internal.js'
import { writeResults } from './result-file.js'
import { openResultLog } from './result-log.js'

let folder: string
let out: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-results-'))
  out = join(folder, 'results.jsonl')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Items as a store pages them: in the order of their positions. */
function itemsOf(results: readonly (readonly [position: number, result: string | undefined])[]) {
  const items = results.map(([position, result]) => ({ id: `r:${String(position).padStart(12, '0')}`, result }))
  const runs: Pick<RunStore, 'items'> = {
    items: async (_, { limit, after }) => {
      const start = Number(after ?? 0)
      const next = start + limit < items.length ? { next: String(start + limit) } : {}
      return { items: items.slice(start, start + limit) as unknown as TaskRecord[], ...next }
    },
  }
  return withRuns(runs)
}

/** A store with these verbs of runs. */
function withRuns(runs: Partial<RunStore>) {
  const store = new MemoryStore()
  return Object.assign(store, { runs: Object.assign(store.runs, runs) })
}

describe('a file of results', () => {
  it('has a line per succeeded item, in the order of the source, and nothing for nothing', async () => {
    const many = Array.from({ length: 1000 }, (_, i) => [i, i === 7 ? undefined : `{"n":${i}}`] as const)
    expect(await writeResults(itemsOf(many), 'r', out)).toBe(1000)
    const lines = readFileSync(out, 'utf8').split('\n')
    expect(lines.length).toBe(1001)
    expect([lines[0], lines[7], lines[999], lines[1000]]).toEqual(['{"n":0}', 'null', '{"n":999}', ''])
    expect(await writeResults(itemsOf([]), 'r', out)).toBe(0)
    expect(readFileSync(out, 'utf8')).toBe('')
  })

  it('puts the sample of a trial back into its places', async () => {
    // Of ten lines, 2, 3 and 8 were taken first. The item of line 3 died, and so did that of line 5.
    const sample = [2, 3, 8]
    const order = [2, 3, 8, 0, 1, 4, 5, 6, 7, 9]
    const taken = order.flatMap((line, position) =>
      line === 3 || line === 5 ? [] : [[position, String(line)] as const],
    )
    await writeResults(itemsOf(taken), 'r', out, { sample })
    expect(readFileSync(out, 'utf8').trim().split('\n').map(Number)).toEqual([0, 1, 2, 4, 6, 7, 8, 9])
  })

  it('ends with the sample if nothing follows it', async () => {
    await writeResults(
      itemsOf([
        [0, '0'],
        [1, '9'],
      ]),
      'r',
      out,
      { sample: [0, 9] },
    )
    expect(readFileSync(out, 'utf8')).toBe('0\n9\n')
  })

  it('leaves the old file, and nothing else, when it fails', async () => {
    writeFileSync(out, 'old\n')
    const broken = withRuns({ items: () => Promise.reject(new Error('the store is away')) })
    await expect(writeResults(broken, 'r', out)).rejects.toThrow('the store is away')
    expect(readFileSync(out, 'utf8')).toBe('old\n')
    expect(readdirSync(folder)).toEqual(['results.jsonl'])
  })
})

/** Keeps the outputs of a run as a store does, and forgets nothing when the process dies. */
function outputs(rows: readonly OutputRow[]) {
  const left = [...rows]
  let noted = { id: 'r', outputBytes: 0 } as RunRecord
  const runs: Pick<RunStore, 'get' | 'outputs' | 'written'> = {
    get: async () => noted,
    outputs: async (_, limit) => left.slice(0, limit),
    written: async (_, ids, outputBytes) => {
      noted = { ...noted, outputBytes }
      left.splice(0, left.length, ...left.filter(({ id }) => !ids.includes(id)))
    },
  }
  return { store: withRuns(runs), left }
}

describe('a log of results', () => {
  const rows = Array.from({ length: 1200 }, (_, i) => ({ id: `r:${i}`, result: `{"é":${i}}` }))

  it('appends what has come, batch by batch, and goes on where it was', async () => {
    const { store, left } = outputs(rows.slice(0, 700))
    const log = await openResultLog(store, 'r', out)
    expect(await log.append()).toBe(700)
    expect(await log.append()).toBe(0)
    await log.close()

    left.push(...rows.slice(700))
    const again = await openResultLog(store, 'r', out)
    expect(await again.append()).toBe(500)
    await again.close()
    expect(readFileSync(out, 'utf8')).toBe(rows.map(({ result }) => `${result}\n`).join(''))
  })

  it.each(['{"é":70', '{"é":700}\n', '{"é":700}\n{"é":701}\n{'])('cuts off what was not noted: %j', async tail => {
    const { store, left } = outputs(rows.slice(0, 700))
    const log = await openResultLog(store, 'r', out)
    await log.append()
    await log.close()
    appendFileSync(out, tail)
    left.push(...rows.slice(700))
    const again = await openResultLog(store, 'r', out)
    await again.append()
    await again.close()
    expect(readFileSync(out, 'utf8')).toBe(rows.map(({ result }) => `${result}\n`).join(''))
  })

  it('refuses a file that is gone or shorter, and one that somebody else writes to', async () => {
    const { store, left } = outputs(rows.slice(0, 2))
    const log = await openResultLog(store, 'r', out)
    await log.append()
    appendFileSync(out, 'x')
    left.push({ id: 'r:9', result: '9' })
    await expect(log.append()).rejects.toThrow('was changed by another process')
    await log.close()
    writeFileSync(out, '{')
    await expect(openResultLog(store, 'r', out)).rejects.toThrow('is shorter than it was')
    rmSync(out)
    await expect(openResultLog(store, 'r', out)).rejects.toThrow('redrive pipeline export r --out FILE')
    expect(existsSync(out)).toBe(false)
  })
})

describe.each(['a file', 'a log'])('%s of results', kind => {
  const write = async () => {
    if (kind === 'a file') return writeResults(itemsOf([[0, '1']]), 'r', out)
    const { store } = outputs([{ id: 'r:0', result: '1' }])
    const log = await openResultLog(store, 'r', out)
    return log.append().finally(() => log.close())
  }

  it.each(['new', 'replaced'])('can be read by its owner only: %s', async state => {
    if (state === 'replaced') writeFileSync(out, 'old', { mode: 0o644 })
    await write()
    expect(statSync(out).mode & 0o777).toBe(0o600)
  })

  it('is never written through a link', async () => {
    const other = join(folder, 'other')
    writeFileSync(other, 'mine')
    symlinkSync(other, out)
    await write().catch(error => expect(String(error)).toContain('is no regular file'))
    expect(readFileSync(other, 'utf8')).toBe('mine')
  })
})
