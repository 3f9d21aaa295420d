// Installs what package-lock.json names, unless it is there already. Runs before `npm start` and `npm test`.
import { spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'

const installed = 'node_modules/.package-lock.json'
const isCurrent = existsSync(installed) && statSync(installed).mtimeMs >= statSync('package-lock.json').mtimeMs

if (!isCurrent) {
  console.error('Installing dependencies (once) …')
  const { status } = spawnSync('npm', ['install', '--no-save', '--no-audit', '--no-fund'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  })
  if (status !== 0) {
    console.error('The dependencies could not be installed: see above. Run `npm install` to try again.')
    process.exit(status ?? 1)
  }
}
