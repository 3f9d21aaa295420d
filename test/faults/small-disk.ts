import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll } from 'vitest'

/** A disk of a test file's own, to be filled up. Without root there is none. */
export interface SmallDisk {
  readonly folder: string
  readonly isMounted: boolean
  /** Takes what room there is. */
  fillUp(): void
  makeRoom(): void
}

/** Mounts a disk for as long as the file's tests run. */
export function smallDisk(megabytes: number): SmallDisk {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-disk-'))
  const mount = ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'redrive-faults', folder]
  const { status, stderr } = spawnSync('mount', mount, { encoding: 'utf8' })
  const isMounted = status === 0
  if (!isMounted) {
    process.stdout.write(
      `[faults] SKIPPED: a disk without room. Mounting a tmpfs needs root: ${stderr ?? 'no mount'}\n`,
    )
  }
  afterAll(async () => {
    if (isMounted) await unmount(folder)
    rmSync(folder, { recursive: true, force: true })
  })
  const ballast = join(folder, 'ballast')
  return {
    folder,
    isMounted,
    fillUp: () => fill(ballast),
    makeRoom: () => rmSync(ballast, { force: true }),
  }
}

/** Whoever goes through all folders of the machine may be in this one just now. */
async function unmount(folder: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return void execFileSync('umount', [folder])
    } catch (error) {
      if (tries === 50) throw error
      await sleep(100)
    }
  }
}

function fill(path: string): void {
  const file = openSync(path, 'a')
  try {
    for (const bytes of [65_536, 4096, 512, 1]) {
      const block = Buffer.alloc(bytes)
      try {
        while (writeSync(file, block) === bytes);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      }
    }
  } finally {
    closeSync(file)
  }
}
