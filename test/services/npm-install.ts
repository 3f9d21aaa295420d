import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const FLAGS = ['--no-save', '--no-audit', '--no-fund', '--prefer-offline', '--fetch-retries=1']

/**
 * Installs packages into a folder of their own, from npm's cache where it has them. They are no dependencies of ours:
 * most tests do not need them.
 */
export async function npmInstall(
  folder: string,
  packages: readonly string[],
  { env = process.env, allowScripts = [] }: { env?: NodeJS.ProcessEnv; allowScripts?: readonly string[] } = {},
): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const json = join(folder, 'package.json')
  const scripts = Object.fromEntries(allowScripts.map(name => [name, true]))
  if (!existsSync(json)) writeFileSync(json, JSON.stringify({ private: true, allowScripts: scripts }))
  const flags = allowScripts.length > 0 ? FLAGS : [...FLAGS, '--ignore-scripts']
  try {
    await promisify(execFile)('npm', ['install', '--prefix', folder, ...flags, ...packages], { env })
  } catch (cause) {
    throw new Error(`The tests need ${packages.join(', ')}, and npm could not install it.`, { cause })
  }
}
