import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Registry } from 'prom-client'
import { expect, it, onTestFinished } from 'vitest'
import { startPrometheus } from '../../test/services/prometheus.js'
import { BROKER_MS } from '../../test/services/shared-broker.js'
import { handleEvent } from '../event/index.js'
import { FinalError } from '../policy/index.js'
import { eventMetrics } from './index.js'

/** Runs a query and returns its values by the label `reason`. */
async function ask(url: string, query: string): Promise<Record<string, number>> {
  const response = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query })}`)
  const { data } = (await response.json()) as { data: { result: { metric: { reason: string }; value: [0, string] }[] } }
  return Object.fromEntries(data.result.map(({ metric, value }) => [metric.reason, Number(value[1])]))
}

it(
  'a Prometheus that scrapes the metrics sees the first dead letter of a service as an increase',
  async () => {
    const registry = new Registry()
    const metrics = createServer(async (_, response) => response.end(await registry.metrics()))
    metrics.listen(0, '127.0.0.1')
    onTestFinished(() => void metrics.close())
    await once(metrics, 'listening')
    const prometheus = await startPrometheus(`127.0.0.1:${(metrics.address() as AddressInfo).port}`)
    onTestFinished(() => prometheus.close())
    const deadLetters = () => ask(prometheus.url, 'redrive_event_dead_letters_total{service="chunking"}')

    const options = { service: 'chunking', key: 'chunking-m1', sink: await eventMetrics({ registry }) }
    await handleEvent(() => 'done', {}, options)
    const none = { max_attempts: 0, ttl_exceeded: 0, non_retryable: 0 }
    await expect.poll(deadLetters, { timeout: 10_000 }).toEqual(none)

    await handleEvent(() => Promise.reject(new FinalError('bad')), {}, options).catch(() => {})
    await expect.poll(deadLetters, { timeout: 10_000 }).toEqual({ ...none, non_retryable: 1 })
    const increase = await ask(prometheus.url, 'increase(redrive_event_dead_letters_total{service="chunking"}[1m]) > 0')
    expect(Object.keys(increase)).toEqual(['non_retryable'])
  },
  BROKER_MS,
)
