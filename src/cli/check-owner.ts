import { type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { CommandError } from './errors.js'
import { quoted } from './terminal/visible.js'

const ROOT = 0
const WRITABLE_BY_ALL = 0o002
const STICKY = 0o1000

/** The parts of a file's status that say who may change it. */
type Access = Pick<Stats, 'uid' | 'mode'>

/**
 * Refuses code of a project that another user may have put there: it is found by itself, from the current folder upwards. Root also runs
 * code of others, as in a container with a mounted project, unless everybody can write to one of the folders above it.
 */
export function checkOwner(file: string, uid = process.getuid?.()): void {
  // Windows has no such users.
  if (uid === undefined) return
  const folders = foldersOf(file).map(folder => statSync(folder))
  const problem = problemOf(statSync(file), folders, uid)
  if (problem === undefined) return
  throw new CommandError(`${quoted(file)} is not run: ${problem}. If you trust it, take it over, or move it.`)
}

/** Why code in a file is not to be trusted. `folders` are those that it is in, the nearest first. */
export function problemOf(file: Access, folders: readonly Access[], uid: number): string | undefined {
  const isForAll = ({ mode }: Access) => (mode & WRITABLE_BY_ALL) !== 0
  const [folder] = folders
  if (isForAll(file)) return 'every user can write to it'
  // In a sticky folder such as /tmp, nobody can replace the file of another user.
  if (folder !== undefined && isForAll(folder) && (folder.mode & STICKY) === 0)
    return 'every user can replace it in its folder'
  const isOthers = file.uid !== uid && file.uid !== ROOT
  if (isOthers && (uid !== ROOT || folders.some(isForAll))) return 'it belongs to another user'
  return undefined
}

function foldersOf(path: string): string[] {
  const folder = dirname(path)
  return folder === path ? [] : [folder, ...foldersOf(folder)]
}
