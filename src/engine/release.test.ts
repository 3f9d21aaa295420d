import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { releaseOf } from './release.js'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-release-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

function packageIn(path: string, content: object): void {
  mkdirSync(join(folder, path), { recursive: true })
  writeFileSync(join(folder, path, 'package.json'), JSON.stringify(content))
}

it('the variable goes before the version of the package', () => {
  packageIn('.', { version: '1.8.0' })
  expect(releaseOf(join(folder, 'main.js'), { REDRIVE_RELEASE: 'a1b2c3' })).toBe('a1b2c3')
  expect(releaseOf(join(folder, 'main.js'), { REDRIVE_RELEASE: '' })).toBe('1.8.0')
})

it('the version is that of the nearest package that has one', () => {
  packageIn('.', { version: '1.8.0' })
  packageIn('dist', { type: 'module' })
  expect(releaseOf(join(folder, 'dist/main.js'), {})).toBe('1.8.0')
  packageIn('dist', { version: '2.0.0' })
  expect(releaseOf(join(folder, 'dist/main.js'), {})).toBe('2.0.0')
})

it('a version that nobody keeps is none, and neither is that of a package that runs the application', () => {
  packageIn('.', { version: '0.0.0' })
  expect(releaseOf(join(folder, 'main.js'), {})).toBeUndefined()
  packageIn('node_modules/runner', { version: '9.0.0' })
  expect(releaseOf(join(folder, 'node_modules/runner/cli.js'), {})).toBeUndefined()
  expect(releaseOf(undefined, {})).toBeUndefined()
})
