import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Whether this machine lets us install Debian's packages. */
export async function canInstall(): Promise<boolean> {
  if (process.getuid?.() !== 0) return false
  return run('apt-get', ['--version']).then(
    () => true,
    () => false,
  )
}

/** Runs a shell script that installs packages. One at a time on a machine: apt-get fails where another is at work. */
export async function installing(script: string): Promise<void> {
  const lock = join(tmpdir(), 'redrive-apt-get.lock')
  await run('flock', [lock, 'sh', '-ec', script], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    maxBuffer: 64 * 1024 * 1024,
  })
}
