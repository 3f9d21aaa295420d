import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import ts from 'typescript'
import { vi } from 'vitest'
import { freshDatabase } from './services/fresh-database.js'
import { forgetTracing } from './spans.js'
import { ROOT } from './subpaths.js'

/** A TypeScript block of a page. Each is a module of its own. */
export interface Block {
  /** The page, the number of the block in it, and its first line. */
  readonly name: string
  /** The name of its file, without a folder. */
  readonly file: string
  readonly code: string
  /** Whether it may be run: it does not say `no-run`. */
  readonly runs: boolean
  /** Whether it shows the code of another library: it says `peer`. */
  readonly isPeer: boolean
}

/** The pages of the repository: those at its root, and all below docs/ but the API reference, which is generated. */
export const pages = [
  ...readdirSync(ROOT),
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' }).map(file => join('docs', file)),
].filter(file => file.endsWith('.md') && !file.startsWith('docs/api/'))

/** The blocks of all pages. */
export const blocks = pages.flatMap(page => {
  const text = readFileSync(join(ROOT, page), 'utf8')
  return [...text.matchAll(/^```ts(.*)\n([\s\S]*?)^```$/gm)].map(([, info = '', code = ''], index): Block => {
    const title = code.split('\n').find(line => line.trim() !== '' && !line.startsWith('import')) ?? ''
    return {
      name: `${page} #${index + 1}: ${title}`,
      file: `${page.replaceAll('/', '-').replace(/\.md$/, '')}-${index + 1}.ts`,
      code: `${code}\nexport {}\n`,
      runs: !info.includes('no-run'),
      isPeer: info.includes('peer'),
    }
  })
})

/** Writes blocks into a folder, from which they find the packages that they import. */
export function writeBlocks(folder: string, written: readonly Block[]): void {
  mkdirSync(folder, { recursive: true })
  for (const { file, code } of written) writeFileSync(join(folder, file), code)
}

/** The type errors of the blocks in a folder. */
export function typeErrors(folder: string, written: readonly Block[]): string[] {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT)
  const program = ts.createProgram(
    written.map(({ file }) => join(folder, file)),
    { ...options, noUnusedLocals: false, noUnusedParameters: false },
  )
  return ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1
    return `${basename(file?.fileName ?? '')}:${line} ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
  })
}

/** Runs a block: a module that throws fails. One that asks for `DATABASE_URL` gets an empty database. */
export async function runBlock(folder: string, { file, code }: Block): Promise<void> {
  if (code.includes('DATABASE_URL')) vi.stubEnv('DATABASE_URL', await freshDatabase())
  try {
    await import(/* @vite-ignore */ join(folder, file))
  } finally {
    vi.unstubAllEnvs()
    await forgetTracing()
  }
}
