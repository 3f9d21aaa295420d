import { spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const here = name => fileURLToPath(new URL(name, import.meta.url))

/** Installs the libraries that redrive is compared with, unless what the lock file names is already there. */
export function installPeers() {
  const installed = here('node_modules/.package-lock.json')
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(here('package-lock.json')).mtimeMs) return
  console.error('Installing the peers (once) …')
  const { status } = spawnSync('npm', ['install', '--no-save', '--no-audit', '--no-fund'], {
    cwd: here('.'),
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  })
  if (status === 0) return
  console.error('The peers could not be installed: see above. Run `npm install` in bench/ to try again.')
  process.exit(status ?? 1)
}
