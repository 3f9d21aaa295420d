import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Installs the packages that a folder's package.json and package-lock.json name, unless they are there already. `npm ci`
 * would refuse a lock file that lacks the optional packages of other platforms.
 *
 * @param {string} folder
 * @param {string} what what is installed, for the person who waits
 * @param {readonly string[]} [only] the development dependencies that are needed; all of them if left out
 */
export function install(folder, what, only) {
  const { dependencies = {}, devDependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const developing = only ?? Object.keys(devDependencies)
  if (isInstalled(folder, [...Object.keys(dependencies), ...developing])) return
  console.error(`Installing ${what} (once) …`)
  const some = only?.map(name => `${name}@${devDependencies[name]}`)
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  if (some !== undefined) args.push('--omit=dev', '--save-prod', ...some)
  const { status } = spawnSync('npm', args, {
    cwd: folder,
    // Packages in C++ are compiled on all cores.
    env: { ...process.env, JOBS: 'max' },
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  })
  if (status === 0) return
  console.error(`Installing ${what} has failed: see above. Run \`npm install\` in ${folder} to try again.`)
  process.exit(status ?? 1)
}

function isInstalled(folder, names) {
  const record = join(folder, 'node_modules/.package-lock.json')
  if (!existsSync(record) || statSync(record).mtimeMs < statSync(join(folder, 'package-lock.json')).mtimeMs)
    return false
  return names.every(name => existsSync(join(folder, 'node_modules', name)))
}
