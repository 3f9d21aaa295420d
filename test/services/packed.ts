import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../subpaths.js'

/** Puts the package into a folder as npm would install it, built from the present sources. */
export async function installPacked(folder: string): Promise<void> {
  const own = join(folder, 'node_modules/redrive')
  mkdirSync(own, { recursive: true })
  await promisify(execFile)(process.execPath, ['scripts/build.mjs', join(own, 'dist')], { cwd: ROOT })
  cpSync(join(ROOT, 'package.json'), join(own, 'package.json'))
}

/** Links the packages of this project into a folder, with some replaced by others. */
export function linkPackages(folder: string, replaced: Readonly<Record<string, string>> = {}): void {
  const modules = join(folder, 'node_modules')
  mkdirSync(modules, { recursive: true })
  const there = new Set(readdirSync(modules))
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (name !== '.cache' && !there.has(name))
      symlinkSync(replaced[name] ?? join(ROOT, 'node_modules', name), join(modules, name))
}
