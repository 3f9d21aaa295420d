import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Registry } from 'prom-client'
import { documentMetrics } from 'redrive/metrics'
import { presets } from 'redrive/presets'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { findProgram } from './services/programs.js'
import { ROOT } from './subpaths.js'

const OPS = join(ROOT, 'ops')
const RULES = readFileSync(join(OPS, 'prometheus/documents.rules.yml'), 'utf8')

let promtool: (...args: string[]) => Promise<{ stdout: string }>
beforeAll(async () => {
  const program = await findProgram({ title: 'Prometheus', file: 'promtool', places: [], debianPackage: 'prometheus' })
  promtool = (...args) => promisify(execFile)(program, args)
}, 300_000)

/** Every metric that the sink of the preset makes, as a query names it. */
async function metricNames(): Promise<Set<string>> {
  const registry = new Registry()
  await documentMetrics({ registry, collections: [], names: presets.documents.documentMetricNames })
  const names = registry.getMetricsAsArray().map(({ name }) => name)
  const parts = ['_bucket', '_sum', '_count'].map(part => `${presets.documents.documentMetricNames.duration}${part}`)
  return new Set([...names, ...parts])
}

const namesIn = (text: string) => [...text.matchAll(/\b(?:retry_job|redrive)_\w+/g)].map(([name]) => name)

describe('the alert rules', () => {
  it('fire when they should, and only then', async () => {
    expect((await promtool('check', 'rules', join(OPS, 'prometheus/documents.rules.yml'))).stdout).toContain('SUCCESS')
    const { stdout } = await promtool('test', 'rules', join(OPS, 'prometheus/documents.test.yml'))
    expect(stdout).toContain('SUCCESS')
  })

  it('have tests for each alert, firing and not firing', () => {
    const tests = readFileSync(join(OPS, 'prometheus/documents.test.yml'), 'utf8')
    for (const [, alert] of RULES.matchAll(/- alert: (\w+)/g)) {
      expect(tests).toMatch(new RegExp(`alertname: ${alert}\\s+exp_alerts: \\[\\]`))
      expect(tests).toMatch(new RegExp(`alertname: ${alert}\\s+exp_alerts:\\s+- exp_labels`))
    }
  })

  it('name metrics that exist, and runbooks that exist', async () => {
    const known = await metricNames()
    expect(namesIn(RULES).filter(name => !known.has(name))).toEqual([])
    const runbooks = [...RULES.matchAll(/runbook: (\S+)/g)].map(([, path = '']) => path)
    expect(runbooks.length).toBe([...RULES.matchAll(/- alert:/g)].length)
    for (const path of runbooks) expect(readFileSync(join(ROOT, path), 'utf8')).toContain('redrive docs')
  })
})

it('the dashboard names metrics that exist, in queries that parse', async () => {
  const { panels } = JSON.parse(readFileSync(join(OPS, 'grafana/documents.json'), 'utf8'))
  const queries: string[] = panels.flatMap(({ targets }: { targets: { expr: string }[] }) => targets.map(t => t.expr))
  expect(panels.length).toBeGreaterThanOrEqual(5)
  const known = await metricNames()
  expect(queries.flatMap(namesIn).filter(name => !known.has(name))).toEqual([])
  // A recording rule is the way to have promtool parse a query.
  const rules = queries.map((expr, index) => `      - { record: query_${index}, expr: ${JSON.stringify(expr)} }`)
  const folder = mkdtempSync(join(tmpdir(), 'redrive-dashboard-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'rules.yml'), `groups:\n  - name: dashboard\n    rules:\n${rules.join('\n')}\n`)
  expect((await promtool('check', 'rules', join(folder, 'rules.yml'))).stdout).toContain(
    `${queries.length} rules found`,
  )
})

it('there is a runbook for each of the four tiers', () => {
  expect(readdirSync(join(OPS, 'runbooks')).map(file => file.slice(0, 6))).toEqual([
    'tier-1',
    'tier-2',
    'tier-3',
    'tier-4',
  ])
})

describe('the compose file', () => {
  const compose = readFileSync(join(OPS, 'compose/compose.yml'), 'utf8')
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
    expect(stdout).toContain('1 rule files found')
  })
})
