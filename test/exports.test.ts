import { describe, expect, it } from 'vitest'
import { readJson, subpaths } from './subpaths.js'

describe('the imports of the package', () => {
  it('are the same in package.json and in tsconfig.json', () => {
    const { paths } = readJson('tsconfig.json').compilerOptions
    const sources = Object.entries(subpaths()).map(([name, source]) => [name, [`./${source}`]])
    expect(paths).toEqual(Object.fromEntries(sources))
  })

  it('have their declarations beside their code', () => {
    for (const target of Object.values(readJson('package.json').exports)) {
      if (typeof target === 'string') continue
      expect(target).toEqual({ types: expect.stringMatching(/^\.\/dist\/.*\.d\.ts$/), default: expect.any(String) })
      const { types, default: code } = target as { types: string; default: string }
      expect(types.replace(/\.d\.ts$/, '.js')).toBe(code)
    }
  })
})
