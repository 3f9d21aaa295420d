import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { metricsHandler, storeMetrics } from 'redrive/metrics'
import { MemoryStore } from 'redrive/store'
import { expect, it } from 'vitest'
import { npmInstall } from './services/npm-install.js'
import { ROOT } from './subpaths.js'

it('the route that the docs show for Fastify serves the metrics', { timeout: 300_000 }, async () => {
  const folder = join(ROOT, 'node_modules/.cache/redrive/fastify-5')
  await npmInstall(folder, ['fastify@5'])
  const fastify = createRequire(join(folder, 'package.json'))('fastify')
  const registry = new Registry()
  await storeMetrics(new MemoryStore(), { registry })

  const [, route = ''] =
    /```js\n(app\.get[\s\S]*?)```/.exec(readFileSync(join(ROOT, 'docs/telemetry.md'), 'utf8')) ?? []
  const app = fastify()
  new Function('app', 'metrics', route)(app, metricsHandler({ registry }))
  const address: string = await app.listen({ port: 0, host: '127.0.0.1' })
  try {
    const response = await fetch(`${address}/metrics`)
    expect(response.headers.get('content-type')).toBe(registry.contentType)
    expect(await response.text()).toContain('redrive_store_up 1')
  } finally {
    await app.close()
  }
})
