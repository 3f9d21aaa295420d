import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { expect, it } from 'vitest'
import { ROOT, subpaths } from './subpaths.js'

const alias = Object.fromEntries(Object.entries(subpaths()).map(([name, source]) => [name, `${ROOT}/${source}`]))

/** Bundles a module that imports from the package, as an application's build would. */
async function bundle(contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: import.meta.dirname, loader: 'ts' },
    alias,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    write: false,
  })
  return outputFiles[0]?.text ?? ''
}

it("keeps `import { retry } from 'redrive'` small: what a call does not use is not in its bundle", async () => {
  const code = await bundle(`export { retry } from 'redrive'`)
  expect(gzipSync(code, { level: 9 }).length).toBeLessThanOrEqual(7168)
  expect(code).not.toMatch(/node:|retry_exhausted_record|records_dropped|CircuitBreaker|NATS_CONNECT/)
})

it('still finds its own error classes by name after a minifier has renamed them', async () => {
  const code = await bundle(`
    import { classify, FinalError, policy, RateLimitedError, RetryableError } from 'redrive/policy'
    class Mine extends RetryableError {}
    const listed = policy({ retryOn: ['RetryableError'] })
    export const verdicts = [new Mine('x'), new FinalError('x'), new RateLimitedError('x', { retryAfterMs: 5 })]
      .map(error => classify(error, listed, 0).class)
  `)
  const { verdicts } = await import(`data:text/javascript,${encodeURIComponent(code)}`)
  expect(verdicts).toEqual(['retryable', 'final', 'rate_limited'])
})
