import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { ROOT } from './subpaths.js'

it('every member that the package exports is documented, and the API reference can be made', {
  timeout: 240_000,
}, async () => {
  const script = join(ROOT, 'scripts/api-reference.mjs')
  const { stdout } = await promisify(execFile)(process.execPath, [script, '--check']).catch(error => {
    if (error.stdout === '') throw error
    return error
  })
  expect(stdout.split('\n').filter(Boolean)).toEqual([])
})
