import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCommand } from '../../../../test/command.js'
import { openSqlite } from '../../../store/sqlite/internal.js'

import type { Environment } from '../../environment.js'
import type { RunNotes } from './run-notes.js'

const source = (folder: string) => JSON.stringify(new URL(`../../../${folder}/index.ts`, import.meta.url).pathname)

/** Doubles numbers. Multiples of BAD are poison in the second stage, multiples of FLAKY fail once, ODD are skipped. */
const PIPELINE = /* ts */ `
  import { pipeline, stage } from ${source('pipeline')}
  import { skip } from ${source('task')}
  const BAD = 10, FLAKY = 7, DELAY_MS = 0
  const policy = { backoff: { base: '5ms' }, giveUpOn: [422] }
  const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))
  export const double = pipeline('double', [
    stage('parse', (item: { n: number }) => item.n),
    stage('call', async (n: number, { attempt, used }) => {
      used({ tokens: 10 })
      if (DELAY_MS > 0) await sleep(DELAY_MS)
      if (n % BAD === 0) throw Object.assign(new Error('Poison'), { status: 422 })
      if (n % FLAKY === 0 && attempt === 1) throw Object.assign(new Error('Oops'), { status: 500 })
      return n * 2
    }, { policy }),
    stage('filter', n => (n % 100 === 2 ? skip('unwanted') : { doubled: n })),
  ])
`

const MAIN = new URL('../../main.ts', import.meta.url).pathname
const TSX = new URL('../../../../node_modules/tsx/dist/esm/index.mjs', import.meta.url).pathname

let folder: string
const children: ChildProcess[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-pipeline-'))
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  code({})
  items(100)
})
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

/** Writes the pipeline, with other numbers, or with a stage of another name. */
function code(changes: Readonly<Record<string, string | number>>, file = 'double.ts'): void {
  const text = Object.entries(changes).reduce(
    (text, [name, value]) =>
      typeof value === 'number'
        ? text.replace(new RegExp(`\\b${name} = \\d+`), `${name} = ${value}`)
        : text.replace(`'${name}'`, `'${value}'`),
    PIPELINE,
  )
  writeFileSync(join(folder, file), text)
}

function items(count: number): void {
  const lines = Array.from({ length: count }, (_, i) => JSON.stringify({ n: i + 1 }))
  writeFileSync(join(folder, 'in.jsonl'), `${lines.join('\n')}\n`)
}

/** Runs the command in the test's folder. */
const redrive = (argv: readonly string[], overrides: Partial<Environment> = {}) =>
  runCommand(['pipeline', ...argv], { cwd: folder, ...overrides })

const run = (...flags: string[]) => redrive(['run', 'double.ts', '--in', 'in.jsonl', '--id', 'r', ...flags])

const results = (file = 'out.jsonl') =>
  readFileSync(join(folder, file), 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line).doubled)

/** The results that should come of the numbers up to a count. */
const expected = (count: number, bad = 10) =>
  Array.from({ length: count }, (_, i) => i + 1)
    .filter(n => n % bad !== 0 && (n * 2) % 100 !== 2)
    .map(n => n * 2)

describe('redrive pipeline run', () => {
  it('writes the results in the order of the items, and reports what happened', async () => {
    const { code, err, json } = await run('--out', 'out.jsonl', '--output', 'json')
    expect(err).toContain('Run r succeeded in part: 88 succeeded, 2 skipped, 10 dead (90 % success)')
    expect(err).toContain('To see why items died: redrive pipeline report r')
    expect(code).toBe(3)
    expect(json()).toMatchObject({
      id: 'r',
      status: 'partial_success',
      counts: { succeeded: 88, skipped: 2, dead: 10 },
    })
    expect(results()).toEqual(expected(100))

    const report = await redrive(['report', 'r', '--output', 'json'])
    expect(report.json()).toMatchObject({
      total: 100,
      retries: [
        { retries: 0, items: 87, dead: 10 },
        { retries: 1, items: 13 },
      ],
      errors: [
        { stage: 'call', code: 'http_422', failures: 10, dead: 10 },
        { stage: 'call', code: 'http_500', type: 'server_error', failures: 13, dead: 0 },
      ],
      stageReports: [
        { stage: 'parse' },
        { stage: 'call', passed: 90, dead: 10, reliability: 0.9 },
        { stage: 'filter' },
      ],
    })
    const text = (await redrive(['report', 'r'])).out
    expect(text).toMatch(/Cost of the stages\n +call +tokens 1 130\n/)
    expect(text).toContain('Retries that items needed')
    expect(text).toMatch(/http_422 +call +client_error +10 +10/)

    expect((await redrive(['ls'])).out).toMatch(/r +double +partial_success +100 +90 % +10/)
    const show = await redrive(['show', 'r'])
    expect(show.out).toMatch(/\n +cost +tokens 1 130\n/)
    expect(show.out).toMatch(/STAGE +SUCCEEDED +SKIPPED +DEAD\n[\s\S]*call +0 +0 +10\n/)
    expect(show.out).toContain('redrive pipeline reprocess r --dry-run')
  })

  it('ends with 0 if it completed, and with 1 if it failed', async () => {
    code({ BAD: 1000 })
    expect((await run()).code).toBe(0)
    code({ BAD: 1 }, 'all-bad.ts')
    const failed = await redrive(['run', 'all-bad.ts', '--in', 'in.jsonl', '--failure-budget', '1'])
    expect(failed.code).toBe(1)
    expect(failed.err).toContain('failed: 100 dead (0 % success)')
  })

  it('stops when its budget is exceeded, says why, and can be resumed with new code', async () => {
    // Without a delay all items could end before the first check.
    code({ DELAY_MS: 2 })
    const stopped = await run('--failure-budget', '5%', '--check-interval', '20', '--out', 'out.jsonl')
    expect(stopped.code).toBe(1)
    expect(stopped.err).toMatch(
      /stopped at [\d.]+ % dead, 100 % of them 'http_422' in 'call': \d+ of \d+, .* budget is 5 %/,
    )
    expect(stopped.err).toContain('To go on: redrive pipeline resume r double.ts --out out.jsonl\n')
    expect(stopped.err).toContain('The results are written when the run has ended')
    expect((await redrive(['show', 'r'])).out).toMatch(/stopped +at [\d.]+ % dead \(\d+ of \d+, budget 5 %\)/)

    code({ BAD: 1000 }, 'fixed.ts')
    const resumed = await redrive(['resume', 'r', 'fixed.ts', '--out', 'out.jsonl'])
    // Three to six of a hundred died before it stopped.
    expect(resumed.err).toMatch(/Run r (completed|succeeded in part)/)
    const moved = await redrive(['reprocess', 'r', '--yes', '--why', 'fixed'])
    expect(moved.err).toMatch(/\d+ moved\.\nThe run r is open again/)
    const again = await redrive(['resume', 'r', 'fixed.ts', '--out', 'out.jsonl', '--yes'])
    expect(again.code).toBe(0)
    expect(results()).toEqual(expected(100, 1000))
  })

  it('makes no sense of a wrong file, stage, share or id', async () => {
    const noModule = await redrive(['run', 'none.ts', '--in', 'in.jsonl'])
    expect(noModule).toMatchObject({ code: 2, err: expect.stringContaining("There is no file 'none.ts'") })
    expect(await redrive(['run', 'double.ts', '--in', 'none.jsonl'])).toMatchObject({
      code: 2,
      err: "redrive: There is no file 'none.jsonl' to read items from. Check --in.\n",
    })
    expect(await run('--concurrency', 'cal=5')).toMatchObject({
      code: 2,
      err: "redrive: The pipeline 'double' has no stage 'cal'. Its stages: parse, call, filter.\n",
    })
    expect((await run('--failure-budget', '20')).err).toContain(
      "such as '5%' or '0.05', at most 100%. Did you mean '20%'?",
    )
    expect((await run('--unordered')).err).toContain('--unordered needs --out')
    writeFileSync(join(folder, 'empty.ts'), 'export const x = 1')
    expect((await redrive(['run', 'empty.ts', '--in', 'in.jsonl'])).err).toContain('exports no pipeline')
    writeFileSync(join(folder, 'out.jsonl'), 'mine\n')
    expect(await run('--out', 'out.jsonl')).toMatchObject({ code: 2 })
    expect(readFileSync(join(folder, 'out.jsonl'), 'utf8')).toBe('mine\n')
  })

  it('says where the input is broken; what was read is safe, and the rest follows once it is mended', async () => {
    code({ BAD: 1000 })
    const lines = readFileSync(join(folder, 'in.jsonl'), 'utf8').split('\n')
    writeFileSync(join(folder, 'in.jsonl'), lines.map((line, i) => (i === 60 ? '{"n":' : line)).join('\n'))
    const broken = await run('--out', 'out.jsonl')
    expect(broken.code).toBe(1)
    expect(broken.err).toMatch(/read up to item 60, and no further: .*in\.jsonl:61/)
    expect((await redrive(['ls'])).out).toContain('interrupted')
    writeFileSync(join(folder, 'in.jsonl'), lines.join('\n'))
    expect(await redrive(['resume', 'r', 'double.ts', '--out', 'out.jsonl'])).toMatchObject({ code: 0 })
    expect(results()).toEqual(expected(100, 1000))
  })
})

describe('the source of a run', () => {
  it('may be standard input', async () => {
    code({ BAD: 1000 })
    const command = [process.execPath, '--import', TSX, MAIN, 'pipeline', 'run', 'double.ts', '--in', '-']
    const child = spawn('sh', ['-c', 'cat in.jsonl | "$@"', 'sh', ...command, '--out', 'out.jsonl'], { cwd: folder })
    children.push(child)
    expect(await new Promise(resolve => child.on('exit', resolve))).toBe(0)
    expect(results()).toEqual(expected(100, 1000))
  })

  it('is not read again after its end, and a resumed run says so', async () => {
    await run()
    const read = 'Its source was read to its end before, so --in is not read.'
    expect((await redrive(['resume', 'r', 'double.ts', '--in', 'in.jsonl'])).err).toContain(read)
    expect((await redrive(['resume', 'r', 'double.ts'])).err).not.toContain(read)
  })

  it('may be empty, or have one item', async () => {
    items(0)
    const empty = await run()
    expect(empty.code).toBe(0)
    expect(empty.err).toMatch(/Run r completed: no items in \S+\.\n/)
    items(1)
    await redrive(['run', 'double.ts', '--in', 'in.jsonl', '--id', 'one'])
    expect((await redrive(['resume', 'one', 'double.ts'])).err).toContain('goes on after 1 item.')
  })

  it('that cannot be opened was not read', async () => {
    mkdirSync(join(folder, 'folder'))
    const { code, err } = await redrive(['run', 'double.ts', '--in', 'folder', '--id', 'r'])
    expect(code).toBe(1)
    expect(err).toMatch(/The source of the run 'r' could not be read: .*EISDIR/)
    expect(err).not.toContain('item 0')
    expect((await redrive(['ls'])).out).toMatch(/could not be read: .*EISDIR/)
  })
})

describe('a trial', () => {
  it('is part of the run, says what to expect, and does not change the order of the results', async () => {
    items(300)
    const { err, json } = await run('--trial', '40', '--yes', '--out', 'out.jsonl', '--output', 'json')
    expect(err).toContain('Trial: 40 of 300 lines, drawn at random.')
    expect(err).toMatch(/dead letters +about \d+ \(\d+ to \d+\)/)
    expect(err).toMatch(/time +about [\d.]+m?s; more if the service throttles\n/)
    expect(json()).toMatchObject({ total: 300, estimate: { sampled: 40, total: 300 } })
    expect(results()).toEqual(expected(300))
    expect((await redrive(['show', 'r'])).out).toContain('40 random lines first, of 300')
  })

  it('stops there without a yes, and the run goes on when it is resumed', async () => {
    const left = await run('--trial', '40', '--out', 'out.jsonl')
    expect(left.code).toBe(3)
    expect(left.err).toContain('pass --yes to go on at once. The trial is kept. To go on: redrive pipeline resume r')
    const show = await redrive(['show', 'r', '--output', 'json'])
    expect(show.json()).toMatchObject({ status: 'interrupted', total: 40 })
    expect((await redrive(['ls'])).out).toContain('read up to item 40, then stopped after its trial')
    expect((await redrive(['show', 'r'])).out).toContain('read up to item 40, then stopped after its trial')
    await redrive(['resume', 'r', 'double.ts', '--out', 'out.jsonl'])
    expect(results()).toEqual(expected(100))
  })

  it('asks on a terminal', async () => {
    const questions: string[] = []
    const prompt = async (question: string) => String(questions.push(question) && 'y')
    const isTTY = { stdin: true, stdout: true, stderr: true }
    const argv = ['run', 'double.ts', '--in', 'in.jsonl', '--trial', '10']
    expect((await redrive(argv, { prompt, isTTY, columns: 100 })).err).toContain('88 succeeded')
    expect(questions).toEqual(['Go on with the rest? [y/N] '])
  })

  it('is not needed for a file that is not larger', async () => {
    expect((await run('--trial', '100')).err).toContain('all of them are run without a trial')
  })
})

describe('looking after a run', () => {
  it('moves dead items to the stage that has replaced theirs, and asks if that is not said', async () => {
    await run()
    code({ BAD: 1000, call: 'ask' }, 'renamed.ts')
    await redrive(['resume', 'r', 'renamed.ts'])
    expect((await redrive(['show', 'r'])).out).toContain("has no stage 'call' any more, and 0 waiting and 10 dead")
    const guess = await redrive(['reprocess', 'r', '--yes'])
    expect(guess).toMatchObject({ code: 2 })
    expect(guess.err).toContain('Pass --stage call --as STAGE. 0 moved.')
    expect((await redrive(['reprocess', 'r', '--stage', 'call', '--as', 'nowhere', '--yes'])).code).toBe(2)
    const dry = await redrive(['reprocess', 'r', '--stage', 'call', '--as', 'ask', '--dry-run'])
    expect(dry.err).toContain("10 would be moved to the stage 'ask'. This was a dry run: 0 moved.")
    const moved = await redrive(['reprocess', 'r', '--stage', 'call', '--as', 'ask', '--yes'])
    expect(moved.err).toContain('10 moved.')
    expect((await redrive(['resume', 'r', 'renamed.ts'])).code).toBe(0)
  })

  it('reprocesses by error code, and over all runs of a pipeline', async () => {
    await run()
    await redrive(['run', 'double.ts', '--in', 'in.jsonl', '--id', 's'])
    const none = await redrive(['reprocess', '--pipeline', 'double', '--error', 'http_500', '--yes'])
    expect(none.err).toContain('0 moved.')
    const moved = await redrive([
      'reprocess',
      '--pipeline',
      'double',
      '--error',
      'http_422',
      '--yes',
      '--output',
      'json',
    ])
    expect(moved.json()).toMatchObject({ moved: 20, isStopped: false })
    expect(moved.json().reopened.sort()).toEqual(['r', 's'])
    expect((await redrive(['reprocess', '--yes'])).err).toContain('Which items?')
  })

  it('changes, pauses and cancels a run that is open', async () => {
    await run('--trial', '40')
    expect((await redrive(['set', 'r'])).err).toContain('Nothing to change')
    expect((await redrive(['set', 'r', '--concurrency', 'cal=1'])).err).toContain("has no stage 'cal'")
    const set = await redrive(['set', 'r', '--failure-budget', '0.2', '--concurrency', 'call=3', '--output', 'json'])
    expect(set.json()).toMatchObject({ id: 'r', settings: { failureBudget: 0.2, concurrency: { call: 3 } } })
    expect((await redrive(['pause', 'r', '--why', 'lunch'])).err).toBe(
      'Paused. Items that are running finish their stage.\n',
    )
    expect((await redrive(['continue', 'r'])).err).toBe('Continued. The run is interrupted.\n')
    expect((await redrive(['cancel', 'r'])).err).toContain('pass --yes')
    expect((await redrive(['cancel', 'r', '--yes'])).code).toBe(0)
    expect((await redrive(['ls', '--status', 'cancelled'])).out).toContain('cancelled')
    const again = await redrive(['resume', 'r', 'double.ts'])
    expect(again.code).toBe(1)
    expect(again.err).toContain('Run r cancelled: ')
    expect(again.err).not.toContain('To go on')
  })

  it('changes the rates of a stage in all runs of a pipeline, until the code declares others', async () => {
    await run('--trial', '40')
    const rates = async (stage: string) => {
      const store = await openSqlite(join(folder, '.redrive/redrive.db'))
      const [lane] = await store.lanes({ kind: 'pipeline:double', category: stage })
      await store.close()
      return lane?.shared?.limits.rates
    }
    const set = await redrive(['set', 'r', '--rate', 'call=600/m', '--rate', 'parse=bytes:3/s', '--output', 'json'])
    expect(set.json()).toMatchObject({ pipeline: 'double', rates: { call: { items: { perSecond: 10 } } } })
    expect(set.err).toContain("Changed the rates of call, parse, in all runs of 'double'.")
    expect(await rates('call')).toEqual({ items: { perSecond: 10 } })
    expect(await redrive(['set', 'double', '--rate', 'call=40/s', '--rate', 'parse=none'])).toMatchObject({ code: 0 })
    await redrive(['resume', 'r', 'double.ts'])
    expect([await rates('call'), await rates('parse')]).toEqual([{ items: { perSecond: 40 } }, undefined])
    const mistyped = await redrive(['set', 'r', '--rate', 'call=item:1000/s'])
    expect(mistyped.code).toBe(2)
    expect(mistyped.err).toContain("The stage 'call' has no bucket 'item'. Its buckets: items.")
    expect(await rates('call')).toEqual({ items: { perSecond: 40 } })
    const replace = ['--rate', 'call=none', '--rate', 'call=tokens:5/h', '--rate', 'call=items:40/s']
    expect(await redrive(['set', 'r', ...replace])).toMatchObject({ code: 0 })
    expect(await rates('call')).toEqual({ items: { perSecond: 40 }, tokens: { perSecond: 5 / 3600 } })
    expect((await redrive(['show', 'r'])).out).toMatch(/rates +call tokens 5\/h, items 40\/s\n/)
    expect((await redrive(['show', 'r', '--output', 'json'])).json()).toMatchObject({
      rates: { call: { items: { perSecond: 40 } } },
    })
    const lanes = await runCommand(['lane', 'ls', '--category', 'call'], { cwd: folder })
    expect(lanes.out).toContain('shared: tokens 5/h, items 40/s')

    const several = await redrive(['set', 'r', '--rate', 'call=5/s'])
    expect(several.err).toContain('several buckets: tokens, items. Name one: --rate call=BUCKET:100/s')
    expect((await redrive(['set', 'r', '--rate', 'cal=5/s'])).err).toContain("has no stage 'cal'")
    expect((await redrive(['set', 'r', '--rate', 'call=fast'])).err).toContain(
      "such as 'llm_call=100/s', 'llm_call=requests:500/m' or 'llm_call=none'.",
    )
    expect((await redrive(['set', 'other', '--rate', 'call=5/s'])).err).toContain("There is no run 'other'")
    expect((await redrive(['set', 'double', '--check-interval', '5'])).err).toContain("'double' is a pipeline")
  })

  it('has no settings to change once it has ended', async () => {
    await run()
    expect(await redrive(['set', 'r', '--failure-budget', '1%'])).toMatchObject({
      code: 2,
      err: "redrive: The run 'r' has ended (partial_success), so its settings have no effect. Nothing was changed.\n",
    })
    expect((await redrive(['show', 'r', '--output', 'json'])).json()).toMatchObject({
      settings: { failureBudget: 0.1 },
    })
  })

  it('names the store that it was given in every command that it proposes', async () => {
    const here = ['--store', 'sqlite:./other.db']
    const commandsIn = (text: string) => text.match(/redrive (pipeline|worker) .*/g) ?? []
    code({ call: 'ask' }, 'renamed.ts')
    const said: string[][] = []
    const tell = async (...argv: string[]) => {
      // Wide enough for every paragraph to stay one line.
      const { out, err } = await redrive([...argv, ...here], { columns: 400 })
      said.push(commandsIn(out + err))
    }
    const budget = ['--failure-budget', '1%', '--check-interval', '20']
    await tell('run', 'double.ts', '--in', 'in.jsonl', '--id', 'r', '--out', 'out.jsonl', ...budget)
    await tell('show', 'r')
    await tell('show', 'nobody')
    await tell('report', 'nobody')
    await tell('resume', 'r', 'double.ts', '--failure-budget', '100%')
    await tell('resume', 'r', 'renamed.ts')
    await tell('show', 'r')
    await tell('reprocess', 'r', '--stage', 'call', '--as', 'ask', '--yes')
    expect(said.map(commands => commands.length)).toEqual([3, 3, 1, 1, 1, 1, 3, 1])
    for (const command of said.flat()) expect(command).toContain(' --store sqlite:./other.db')
    expect(said[0]).toContain('redrive pipeline export --store sqlite:./other.db r --out FILE')
  })

  it('writes the results of a run again, and knows no run of another name', async () => {
    await run()
    expect((await redrive(['export', 'r', '--out', 'again.jsonl'])).err).toContain('88 results written')
    expect(results('again.jsonl')).toEqual(expected(100))
    for (const verb of ['show', 'report', 'pause', 'cancel']) {
      expect((await redrive([verb, 'nobody'])).err).toContain("There is no run 'nobody'")
    }
  })

  it('shows dead items with their stage, their input there and their history', async () => {
    await run()
    const dlq = (...argv: string[]) => runCommand(['dlq', ...argv], { cwd: folder })
    expect((await dlq('ls')).out).toMatch(/r:0+99 +pipeline:double +call +final_error/)
    const { out } = await dlq('show', 'r:000000000099')
    expect(out).toMatch(/stage +call\n +run +r\n/)
    expect(out).toMatch(/stage input +100\n/)
    expect(out).toMatch(/STAGE +# [\s\S]*parse +1 .* advanced[\s\S]*call +1 .* dead +final http_422/)
    expect(out).toContain('redrive pipeline reprocess --pipeline double --error http_422')
  })
})

/** A run with an item that waits at its first stage. */
async function waitingRun(notes: RunNotes = {}) {
  const store = await openSqlite(join(folder, '.redrive/redrive.db'))
  const settings = {
    failureBudget: 1,
    stageBudgets: {},
    checkInterval: 1000,
    budgetWindow: undefined,
    completedFrom: 0.95,
    partialFrom: 0.5,
    maxUnfinished: 1000,
    concurrency: {},
  }
  const reader = { name: 'w', leaseMs: 60_000 }
  const about = JSON.stringify(notes)
  await store.runs.open({ id: 'r', pipeline: 'double', version: '1', stages: ['parse'], settings, reader, about })
  const items = [{ payload: '{ "n": 1 }' }]
  await store.runs.take('r', { reader: 'w', leaseMs: 60_000, position: 0, items, isEnd: true })
  return store
}

it('goes on after a stage was renamed, with the command that is offered', async () => {
  await (await waitingRun()).close()
  code({ parse: 'read' }, 'renamed.ts')
  const refused = await redrive(['resume', 'r', 'renamed.ts'])
  expect(refused.code).toBe(1)
  const [command = ''] = /redrive pipeline reprocess .*/.exec(refused.err) ?? []
  expect(command).toBe('redrive pipeline reprocess r --stage parse --as STAGE')
  const argv = command.replace('STAGE', 'read').split(' ').slice(2)
  const moved = await redrive([...argv, '--yes'])
  expect(moved).toMatchObject({ code: 0 })
  expect(moved.err).toBe('1 moved.\nNo worker is running that could go on with them. Start one: redrive worker FILE\n')
  expect((await redrive(['resume', 'r', 'renamed.ts'])).code).toBe(0)
})

it('goes on after a stage was renamed and a worker has started with the new code', async () => {
  await (await waitingRun()).close()
  code({ parse: 'read' }, 'renamed.ts')
  const unknown = await redrive(['reprocess', 'r', '--stage', 'parse', '--as', 'read', '--yes'])
  expect(unknown).toMatchObject({ code: 2 })
  expect(unknown.err).toContain('If your code has it, start a worker with that code')
  let stop = () => {}
  const onSignal = (callback: (signal: string) => void) => {
    stop = () => callback('SIGTERM')
    return () => {}
  }
  const stderr = { write: (text: string) => text.includes('Ctrl-C') && setTimeout(stop) }
  await runCommand(['worker', 'renamed.ts'], { cwd: folder, onSignal, stderr })
  expect((await redrive(['reprocess', 'r', '--stage', 'parse', '--as', 'read', '--yes'])).err).toMatch(/^1 moved/)
})

it('writes results to no file that only the run names, whoever wrote that', async () => {
  const victim = join(folder, 'victim')
  writeFileSync(victim, 'mine')
  await (await waitingRun({ output: victim })).close()
  const { code, err } = await redrive(['resume', 'r', 'double.ts'])
  expect(code).toBe(0)
  expect(err).toContain(`Its results were to go to '${victim}'. To have them written here, pass --out.`)
  expect(readFileSync(victim, 'utf8')).toBe('mine')
  const refused = await redrive(['resume', 'r', 'double.ts', '--out', 'victim'])
  expect(refused).toMatchObject({ code: 2 })
  expect(refused.err).toContain('exists already')
})

it('is offered to workers if no process works on it any more', async () => {
  const store = await waitingRun()
  await store.heartbeat({ worker: 'w', leaseMs: 60_000 })
  expect((await redrive(['ls'])).out).not.toContain('no process')
  expect((await redrive(['show', 'r'])).out).not.toContain('What to do next')
  await store.leave('w')
  await store.close()
  expect((await redrive(['ls'])).out).toMatch(
    / running [^\n]*\n +no process works on it. Start a worker that has code for it:\n {4}redrive worker FILE\n/,
  )
  const { out } = await redrive(['show', 'r'])
  expect(out).toMatch(/stuck +no process works on it\n/)
  expect(out).toMatch(/What to do next\n +redrive worker FILE\n/)
})

/** Runs the command in a process of its own, which a test may kill. */
function spawned(...argv: string[]) {
  const child = spawn(process.execPath, ['--import', TSX, MAIN, 'pipeline', ...argv], { cwd: folder })
  children.push(child)
  let err = ''
  child.stderr.on('data', (text: Buffer) => {
    err += text.toString()
  })
  const exit = new Promise<number | null>(resolve => child.on('exit', resolve))
  return { child, exit, err: () => err }
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1200 && !condition(); tries++) await new Promise(resolve => setTimeout(resolve, 50))
  expect(condition()).toBe(true)
}

const sizeOf = (file: string) => statSync(join(folder, file), { throwIfNoEntry: false })?.size ?? 0

describe('a run that is stopped', { timeout: 240_000 }, () => {
  it('ends cleanly at a signal, says how to go on, and goes on', async () => {
    code({ BAD: 1000, DELAY_MS: 20 })
    items(2000)
    const { child, exit, err } = spawned(
      'run',
      'double.ts',
      '--in',
      'in.jsonl',
      '--id',
      'r',
      '--out',
      'out.jsonl',
      '--unordered',
    )
    await until(() => sizeOf('out.jsonl') > 0)
    child.kill('SIGINT')
    expect(await exit).toBe(3)
    expect(err()).toContain('To go on: redrive pipeline resume r double.ts --out out.jsonl\n')
    code({ BAD: 1000 })
    expect((await redrive(['resume', 'r', 'double.ts', '--out', 'out.jsonl'])).code).toBe(0)
    expect(results().sort((a, b) => a - b)).toEqual(expected(2000, 1000))
  })

  it('by kill -9, again and again, neither tears nor doubles a line of its output', async () => {
    code({ BAD: 1000, DELAY_MS: 5 })
    items(4000)
    let before = 0
    for (let round = 0; round < 2; round++) {
      const argv =
        round === 0
          ? ['run', 'double.ts', '--in', 'in.jsonl', '--id', 'r', '--out', 'out.jsonl', '--unordered']
          : ['resume', 'r', 'double.ts', '--out', 'out.jsonl']
      const { child, exit } = spawned(...argv)
      await until(() => sizeOf('out.jsonl') > before)
      child.kill('SIGKILL')
      await exit
      before = sizeOf('out.jsonl')
    }
    code({ BAD: 1000 })
    const { code: exitCode, err } = await redrive(['resume', 'r', 'double.ts', '--out', 'out.jsonl'])
    expect(err).toMatch(/\d+ items? (is|are) running in another process\. If that is gone, this one takes/)
    expect(err).toContain('completed')
    expect(exitCode).toBe(0)
    expect(results().sort((a, b) => a - b)).toEqual(expected(4000, 1000))
    const store = await openSqlite(join(folder, '.redrive/redrive.db'))
    expect((await store.runs.get('r'))?.counts).toMatchObject({ succeeded: expected(4000, 1000).length, waiting: 0 })
    await store.close()
  })
})
