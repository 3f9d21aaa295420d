import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Registry } from 'prom-client'
import { CircuitBreaker } from 'redrive'
import { documentMetrics, storeMetrics, workMetrics } from 'redrive/metrics'
import { presets } from 'redrive/presets'
import { MemoryStore } from 'redrive/store'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { runCommand } from './command.js'
import { findProgram } from './services/programs.js'
import { ROOT } from './subpaths.js'

const OPS = join(ROOT, 'ops')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

let promtool: (...args: string[]) => Promise<{ stdout: string }>
let known: Set<string>
beforeAll(async () => {
  const program = await findProgram({ title: 'Prometheus', file: 'promtool', places: [], debianPackage: 'prometheus' })
  promtool = (...args) => promisify(execFile)(program, args)
  known = await metricNames()
}, 300_000)

/** Every metric that there is, as a query names it. */
async function metricNames(): Promise<Set<string>> {
  const registry = new Registry()
  await documentMetrics({ registry, collections: [], names: presets.documents.documentMetricNames })
  await workMetrics({ registry, breakers: [new CircuitBreaker('ops')], bulkheads: [], sinks: {} })
  await storeMetrics(new MemoryStore(), { registry })
  const metrics = await registry.getMetricsAsJSON()
  return new Set(
    metrics.flatMap(({ name, type }) =>
      String(type) === 'histogram' ? ['_bucket', '_sum', '_count'].map(part => `${name}${part}`) : [name],
    ),
  )
}

const unknownIn = (text: string) =>
  [...text.matchAll(/\b(?:retry_job|redrive)_\w+/g)].map(([name]) => name).filter(name => !known.has(name))

describe.each(['documents', 'work'])('the alert rules of %s', name => {
  const rules = read(`ops/prometheus/${name}.rules.yml`)

  it('fire when they should, and only then', async () => {
    const { stdout } = await promtool('check', 'rules', join(OPS, `prometheus/${name}.rules.yml`))
    expect(stdout).toContain('SUCCESS')
    expect((await promtool('test', 'rules', join(OPS, `prometheus/${name}.test.yml`))).stdout).toContain('SUCCESS')
  })

  it('have tests for each alert, firing and not firing', () => {
    const tests = read(`ops/prometheus/${name}.test.yml`)
    const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, alert]) => alert)
    expect(alerts.length).toBeGreaterThan(4)
    for (const alert of alerts) {
      expect(tests).toMatch(new RegExp(`alertname: ${alert}\\s+exp_alerts: \\[\\]`))
      expect(tests).toMatch(new RegExp(`alertname: ${alert}\\s+exp_alerts:\\s+- exp_labels`))
    }
  })

  it('name metrics that exist, and runbooks that name the alert', () => {
    expect(unknownIn(rules)).toEqual([])
    const named = [...rules.matchAll(/- alert: (\w+)[\s\S]*?runbook: (\S+)/g)]
    expect(named.length).toBe([...rules.matchAll(/- alert:/g)].length)
    for (const [, alert, runbook = ''] of named) expect(read(runbook), runbook).toContain(`\`${alert}\``)
  })
})

it.each(['documents', 'redrive'])('the dashboard %s names metrics that exist, in queries that parse', async name => {
  const { panels } = JSON.parse(read(`ops/grafana/${name}.json`)) as { panels: { targets?: { expr: string }[] }[] }
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  expect(queries.length).toBeGreaterThanOrEqual(5)
  await expectQueries(queries)
})

it('the dashboard of all work shows every metric of all work', () => {
  const { panels } = JSON.parse(read('ops/grafana/redrive.json'))
  const shown = JSON.stringify(panels)
  const own = [...known].filter(name => name.startsWith('redrive_') && !/_documents_|_(sum|count)$/.test(name))
  expect(own.length).toBeGreaterThan(20)
  expect(own.filter(name => !shown.includes(name))).toEqual([])
})

it('the example for KEDA names metrics that exist, in queries that parse', async () => {
  const queries = [...read('ops/keda/scaled-object.yml').matchAll(/^\s+query: (.*)$/gm)].map(([, query = '']) => query)
  expect(queries.length).toBe(2)
  await expectQueries(queries)
})

/** A recording rule is the way to have promtool parse a query. */
async function expectQueries(queries: readonly string[]): Promise<void> {
  expect(queries.flatMap(unknownIn)).toEqual([])
  const rules = queries.map((expr, index) => `      - { record: query_${index}, expr: ${JSON.stringify(expr)} }`)
  const folder = mkdtempSync(join(tmpdir(), 'redrive-queries-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'rules.yml'), `groups:\n  - name: queries\n    rules:\n${rules.join('\n')}\n`)
  const { stdout } = await promtool('check', 'rules', join(folder, 'rules.yml'))
  expect(stdout).toContain(`${queries.length} rules found`)
}

describe('the runbooks', () => {
  const runbooks = readdirSync(join(OPS, 'runbooks'))

  it('of the four tiers of documents are each linked from the alerts of their tier', () => {
    const rules = read('ops/prometheus/documents.rules.yml')
    const alerts = [...rules.matchAll(/- alert: \w+[\s\S]*?tier: "(\d)"[\s\S]*?runbook: (\S+)/g)]
    for (const [, tier, runbook] of alerts) expect(runbook).toContain(`tier-${tier}-`)
    expect(new Set(alerts.map(([, tier]) => tier))).toEqual(new Set(['1', '2', '3', '4']))
  })

  it('are one for each of the four tiers of documents, and one for each alert on other work', () => {
    const tiers = runbooks.filter(file => file.startsWith('tier-')).map(file => file.slice(0, 6))
    expect(tiers).toEqual(['tier-1', 'tier-2', 'tier-3', 'tier-4'])
    const alerts = [...read('ops/prometheus/work.rules.yml').matchAll(/- alert: (\w+)/g)].map(([, alert = '']) =>
      alert.replace(/(?<!^)([A-Z])/g, '-$1').toLowerCase(),
    )
    expect(runbooks.filter(file => !file.startsWith('tier-'))).toEqual(alerts.map(alert => `${alert}.md`).sort())
  })

  it.each(runbooks)('%s names commands and flags that exist', async file => {
    const text = read(`ops/runbooks/${file}`)
    const commands = [...text.matchAll(/`redrive ((?:[a-z]+ ?)+)([^`]*)`/g)]
    for (const [, words = '', rest = ''] of commands) {
      const { code, out } = await runCommand([...words.trim().split(' '), '--help'])
      expect(code, words).toBe(0)
      expect(out).toContain(`redrive ${words.trim()}`)
      for (const [flag] of rest.matchAll(/--[a-z-]+/g)) expect(out, `redrive ${words}${rest}`).toContain(flag)
    }
  })

  it.each(runbooks)('%s links to files that exist', file => {
    for (const [, target = ''] of read(`ops/runbooks/${file}`).matchAll(/\]\(([^)]+)\)/g))
      expect(existsSync(join(OPS, 'runbooks', target)), target).toBe(true)
  })

  it('name panels that exist', () => {
    const { panels } = JSON.parse(read('ops/grafana/redrive.json')) as { panels: { title: string }[] }
    const named = runbooks.flatMap(file => [...read(`ops/runbooks/${file}`).matchAll(/panel _([^_]+)_/gi)])
    expect(named.length).toBeGreaterThan(5)
    const titles = panels.map(({ title }) => title)
    for (const [, panel = ''] of named) expect(titles).toContain(panel)
  })
})

describe('the compose file', () => {
  const compose = read('ops/compose/compose.yml')
  const found = (pattern: RegExp) => [...compose.matchAll(pattern)].map(([, text = '']) => text)

  it('publishes its ports on the loopback interface only, and has no password in it', () => {
    const ports = found(/^\s+ports: \[(.*)\]/gm).flatMap(list => list.split(', '))
    expect(ports.length).toBeGreaterThan(5)
    expect(ports.filter(port => !port.startsWith('"127.0.0.1:'))).toEqual([])
    for (const value of found(/PASS(?:WORD)?: (.*)/g)) expect(value).toMatch(/^\$\{\w+:\?/)
  })

  it('mounts files that exist, and builds from the Dockerfile beside package.json', () => {
    const mounted = found(/(?:- |")(\.[^:"]*):/g)
    expect(mounted.length).toBeGreaterThan(4)
    for (const path of mounted) expect(existsSync(join(OPS, 'compose', path)), path).toBe(true)
    for (const context of found(/context: ([^ }]+)/g))
      expect(existsSync(join(OPS, 'compose', context, 'Dockerfile'))).toBe(true)
  })

  it('gives Prometheus a configuration that it accepts', async () => {
    const { stdout } = await promtool('check', 'config', join(OPS, 'prometheus/prometheus.yml'))
    expect(stdout).toContain('2 rule files found')
  })
})

describe('the Dockerfile', () => {
  const dockerfile = read('Dockerfile')

  it('is based on exact versions of one Node', () => {
    const images = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, image = '']) => image)
    expect(images).toHaveLength(3)
    for (const image of images) expect(image).toMatch(/^node:\d+\.\d+\.\d+-bookworm/)
    expect(new Set(images.map(image => image.split('-')[0])).size).toBe(1)
  })

  it('installs the versions of the drivers that the tests run with', () => {
    const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, { version: string }> }
    const installed = [...dockerfile.matchAll(/ (@?[a-z][\w/-]*)@(\d[\w.]*)/g)]
    expect(installed.length).toBeGreaterThanOrEqual(8)
    for (const [, name, version] of installed) expect(version, name).toBe(packages[`node_modules/${name}`]?.version)
  })
})
