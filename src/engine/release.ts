import { readFileSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'

/**
 * The version of the application: REDRIVE_RELEASE, or else the version in the package.json next to the program or above it.
 * Programs of packages, such as a test runner, are not the application.
 */
export function releaseOf(program = process.argv[1], environment = process.env): string | undefined {
  const { REDRIVE_RELEASE: release } = environment
  if (release !== undefined && release !== '') return release
  if (program === undefined || program.includes(`${sep}node_modules${sep}`)) return undefined
  return versionAbove(dirname(program))
}

function versionAbove(folder: string): string | undefined {
  const version = versionIn(folder)
  if (version !== undefined) return version === '0.0.0' ? undefined : version
  const parent = dirname(folder)
  return parent === folder ? undefined : versionAbove(parent)
}

/** A package.json that only says how to read the modules beside it has no version. */
function versionIn(folder: string): string | undefined {
  try {
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    return typeof version === 'string' ? version : undefined
  } catch {
    return undefined
  }
}
