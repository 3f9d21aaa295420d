import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { findProgram } from './services/programs.js'
import { ROOT } from './subpaths.js'

const RULES = ['documents', 'work'].map(name => join(ROOT, `ops/prometheus/${name}.rules.yml`))

let promtool: string
beforeAll(async () => {
  promtool = await findProgram({ title: 'Prometheus', file: 'promtool', places: [], debianPackage: 'prometheus' })
}, 300_000)

/** The value of a metric after some minutes; undefined while there is no sample. */
type Samples = (minute: number) => number | undefined
type World = Readonly<Record<string, Samples>>

/** A system in good health, with the totals of a long life: nothing is worth an alert. */
const COUNTERS: World = {
  'retry_job_documents_requeued_total{collection="archives"}': () => 900,
  'retry_job_documents_max_retries_exceeded_total{collection="archives"}': () => 300,
  'retry_job_runs_total{status="failure"}': () => 50,
  'retry_job_runs_total{status="success"}': minute => 7000 + Math.floor(minute / 15),
  'redrive_attempts_total{kind="mail",category="",outcome="failed"}': minute => 90_000 + minute,
  'redrive_attempts_total{kind="mail",category="",outcome="succeeded"}': minute => 50_000 + 9 * minute,
  'redrive_losses_total{kind="mail",category=""}': () => 40,
  redrive_lease_losses_total: () => 20,
  'redrive_sink_errors_total{sink="audit"}': () => 80,
  'redrive_slots_total{end="missed"}': () => 30,
  'redrive_slots_total{end="ran"}': minute => 600 + minute,
}
const GAUGES: World = {
  'retry_job_stuck_documents{collection="archives"}': () => 0,
  'retry_job_failed_documents{collection="archives"}': () => 700,
  'redrive_documents_oldest_stuck_seconds{collection="archives"}': () => 60,
  'redrive_ready_age_seconds{kind="mail",category=""}': () => 1,
  'redrive_dead{kind="mail",category=""}': () => 500,
  'redrive_gate_open{kind="mail",category="*"}': () => 0,
  'redrive_failure_groups{kind="mail",state="regressed"}': () => 0,
  'redrive_breaker_state{breaker="payments",state="open"}': () => 0,
  redrive_schedule_lag_seconds: () => 0,
  redrive_workers: () => 2,
  redrive_store_up: () => 1,
}

/** When something happens, and when the world ends. */
const AT = 75
const END = 240

const map = (world: World, change: (samples: Samples) => Samples): World =>
  Object.fromEntries(Object.entries(world).map(([name, samples]) => [name, change(samples)]))
const on = (world: World, instance: string): World =>
  Object.fromEntries(
    Object.entries(world).map(([name, samples]) => [
      name.includes('{') ? name.replace('{', `{instance="${instance}",`) : `${name}{instance="${instance}"}`,
      samples,
    ]),
  )
const during =
  (from: number, to: number) =>
  (samples: Samples): Samples => {
    return minute => (minute >= from && minute < to ? samples(minute) : undefined)
  }
const without =
  (from: number, to: number) =>
  (samples: Samples): Samples => {
    return minute => (minute >= from && minute < to ? undefined : samples(minute))
  }
/** A counter that starts again at 0 with its process. */
const anew =
  (at: number) =>
  (samples: Samples): Samples => {
    return minute => (samples(minute) ?? 0) - (minute >= at ? (samples(at) ?? 0) : 0)
  }

/**
 * Runs the rules over a world, and returns the names of the alerts that fired between two minutes. With `isStale`, a series
 * ends with Prometheus's marker, as after a scrape that failed; without, as if Prometheus itself had been down.
 */
async function fired(world: World, { from = AT, to = END, isStale = false } = {}): Promise<string[]> {
  const series = Object.entries(world).map(([name, samples]) => {
    const values = Array.from({ length: END }, (_, minute) => {
      const isEnd = minute > 0 && samples(minute) === undefined && samples(minute - 1) !== undefined
      return samples(minute) ?? (isStale && isEnd ? 'stale' : '_')
    })
    return { series: name, values: values.join(' ') }
  })
  const expr = `count by (alertname) (last_over_time(ALERTS{alertstate="firing"}[${to - from}m]))`
  const test = { interval: '1m', input_series: series, promql_expr_test: [{ expr, eval_time: `${to}m` }] }
  const folder = mkdtempSync(join(tmpdir(), 'redrive-alerts-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'test.yml')
  writeFileSync(file, JSON.stringify({ rule_files: RULES, evaluation_interval: '5m', tests: [test] }))
  // No alert is what the test expects: any that fired is in its output.
  const run = promisify(execFile)(promtool, ['test', 'rules', file])
  const { stdout, stderr } = await run.catch((error: { stdout: string; stderr: string }) => error)
  const output = `${stdout}${stderr}`
  if (output.includes('SUCCESS')) return []
  const names = [...(output.split('got:')[1] ?? '').matchAll(/alertname="(\w+)"/g)].map(([, name = '']) => name)
  expect(names, output).not.toEqual([])
  return names.sort()
}

const HEALTHY: World = { ...COUNTERS, ...GAUGES }

describe('alerts do not cry wolf', () => {
  it('covers every metric of the rules', () => {
    const used = RULES.flatMap(file => [...readFileSync(file, 'utf8').matchAll(/\b(?:retry_job|redrive)_\w+/g)])
    const names = Object.keys(HEALTHY).map(name => name.replace(/\{.*/, ''))
    expect(used.map(([name]) => name).filter(name => !names.includes(name))).toEqual([])
  })

  it('in a healthy system', async () => {
    expect(await fired(HEALTHY)).toEqual([])
  })

  describe.each([
    ['of Prometheus', false],
    ['of the scrapes', true],
  ])('after a gap %s', (_, isStale) => {
    it.each([10, 30, 60])('of %i minutes, however old the totals', async minutes => {
      const world = map(HEALTHY, without(AT, AT + minutes))
      expect(await fired(world, { from: AT + minutes, isStale })).toEqual([])
    })

    it('that comes again and again', async () => {
      const world = [0, 40, 70].reduce((now, at) => map(now, without(AT + at, AT + at + 25)), HEALTHY)
      expect(await fired(world, { from: AT + 95, isStale })).toEqual([])
    })
  })

  it('during a gap, except that workers and sweeps are not seen', async () => {
    const gap = (minutes: number) => map(HEALTHY, without(AT, AT + minutes))
    expect(await fired(gap(9))).toEqual([])
    expect(await fired(gap(60))).toEqual(['RetryJobSilent', 'WorkersGone'])
  })

  it('after a restart, when counters start again at 0', async () => {
    expect(await fired(map({ ...map(COUNTERS, anew(AT)), ...GAUGES }, without(AT, AT + 4)))).toEqual([])
  })

  it('when restarts come one after another', async () => {
    const counters = [0, 7, 20, 60, 61].reduce((now, at) => map(now, anew(AT + at)), COUNTERS)
    expect(await fired({ ...counters, ...GAUGES })).toEqual([])
  })

  it('when a new instance takes over, at once, later, or beside the old one for a while', async () => {
    for (const [until, from] of [
      [AT, AT],
      [AT, AT + 4],
      [AT + 10, AT],
    ] as const) {
      const old = on(map(HEALTHY, during(0, until)), 'old')
      const next = on(map({ ...map(COUNTERS, anew(from)), ...GAUGES }, during(from, END)), 'new')
      expect(await fired({ ...old, ...next }, { isStale: true }), `${until} ${from}`).toEqual([])
    }
  })

  it('about workers while it is the store that does not answer', async () => {
    const unanswered = Object.keys(GAUGES).filter(name => name.startsWith('redrive_') && !name.includes('documents'))
    const world = { ...HEALTHY, redrive_store_up: (minute: number) => (minute < AT ? 1 : 0) }
    for (const name of unanswered.filter(name => name !== 'redrive_store_up'))
      Object.assign(world, { [name]: without(AT, END)(HEALTHY[name] ?? (() => 0)) })
    expect(await fired(world)).toEqual(['StoreDown'])
  })

  it('at a limit that is reached, and not exceeded', async () => {
    const limits: [string, number, string][] = [
      ['redrive_dead{kind="mail",category=""}', 10, 'DeadLettersGrow'],
      ['retry_job_failed_documents{collection="archives"}', 300, 'DocumentsEscalation'],
      ['retry_job_documents_max_retries_exceeded_total{collection="archives"}', 10, 'MaxRetriesExceededCritical'],
      ['redrive_losses_total{kind="mail",category=""}', 3, 'WorkersDie'],
    ]
    const grown = (more: number) =>
      limits.map(([name, by]) => [name, (minute: number) => (HEALTHY[name]?.(0) ?? 0) + (minute < AT ? 0 : by + more)])
    expect(await fired({ ...HEALTHY, ...Object.fromEntries(grown(0)) })).toEqual([])
    expect(await fired({ ...HEALTHY, ...Object.fromEntries(grown(1)) })).toEqual(limits.map(([, , alert]) => alert))
  })
})

describe('alerts are not lost in a gap', () => {
  it.each([30, 90])('of %i minutes', async minutes => {
    const world = {
      ...HEALTHY,
      'redrive_dead{kind="mail",category=""}': (minute: number) => (minute < AT + 2 ? 500 : 520),
      'retry_job_documents_max_retries_exceeded_total{collection="archives"}': (minute: number) =>
        minute < AT + 2 ? 300 : 320,
    }
    const after = await fired(map(world, without(AT, AT + minutes)), { from: AT + minutes })
    expect(after).toEqual(['DeadLettersGrow', 'MaxRetriesExceededCritical'])
  })

  it('nor is a sweeper that falls silent in one', async () => {
    const silent = { 'retry_job_runs_total{status="success"}': (m: number) => 7000 + Math.floor(Math.min(m, AT) / 15) }
    const world = map({ ...HEALTHY, ...silent }, without(AT, AT + 30))
    expect(await fired(world, { from: AT + 45 })).toEqual(['RetryJobSilent'])
  })
})
