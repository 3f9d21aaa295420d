import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { ROOT, readJson } from './subpaths.js'

describe('the package', () => {
  let files: string[]
  beforeAll(async () => {
    const args = ['pack', '--dry-run', '--json', '--ignore-scripts']
    const { stdout } = await promisify(execFile)('npm', args, { cwd: ROOT })
    const [packed] = JSON.parse(stdout) as { files: { path: string }[] }[]
    files = (packed?.files ?? []).map(({ path }) => path)
  })

  it('has the pages that a user needs', () => {
    expect(files).toEqual(
      expect.arrayContaining(['README.md', 'LICENSE', 'CHANGELOG.md', 'SECURITY.md', 'docs/tls.md']),
    )
  })

  it('has what its pages link to', () => {
    const links = files
      .filter(file => file.endsWith('.md'))
      .flatMap(page => linksOf(page).map(target => ({ page, target: normalize(join(dirname(page), target)) })))
    expect(links.length).toBeGreaterThan(50)
    const isPacked = (target: string) => files.some(file => file === target || file.startsWith(`${target}/`))
    expect(links.filter(({ target }) => !isPacked(target))).toEqual([])
  })

  it('says where it comes from, in package.json alone', () => {
    const { repository, homepage, bugs } = readJson('package.json')
    const home = repository.url.replace(/^git\+|\.git$/g, '')
    expect(home).toMatch(/^https:\/\//)
    expect({ homepage, bugs }).toEqual({ homepage: `${home}#readme`, bugs: `${home}/issues` })
  })
})

/** The files that a page links to, code aside. */
function linksOf(page: string): string[] {
  const prose = readFileSync(join(ROOT, page), 'utf8').replace(/^```[\s\S]*?^```$/gm, '')
  return [...prose.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, target = '']) => target.replace(/\/$/, ''))
}
