import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readJson, subpaths } from './subpaths.js'

const names = Object.keys(subpaths())
const MODULES = ['node:fs', 'node:fs/promises', 'node:child_process', 'node:net']

/** Replaces the functions of a module of Node by functions that throw. */
async function refusing(original: () => Promise<object>): Promise<object> {
  const refuse = (name: string) => () => {
    throw new Error(`${name}() was called while a module was imported`)
  }
  const entries = Object.entries(await original())
  return Object.fromEntries(entries.map(([name, value]) => [name, typeof value === 'function' ? refuse(name) : value]))
}

// Other files run in this process afterwards.
afterAll(() => {
  for (const module of MODULES) vi.doUnmock(module)
  vi.resetModules()
})

describe('importing the package', () => {
  it('has no side effects, as package.json tells bundlers', () => {
    expect(readJson('package.json').sideEffects).toBe(false)
  })

  describe.each(names)('%s', name => {
    beforeAll(() => {
      vi.resetModules()
      for (const module of MODULES) vi.doMock(module, refusing)
    })

    it('touches no file, starts no process and leaves no listener or global behind', async () => {
      const [globals, events] = [Object.keys(globalThis), process.eventNames()]
      await import(/* @vite-ignore */ name)
      expect(Object.keys(globalThis)).toEqual(globals)
      expect(process.eventNames()).toEqual(events)
    })
  })
})
