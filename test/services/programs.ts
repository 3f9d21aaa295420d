import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { canInstall, installing } from './debian.js'

/** A server's program, and what to do where it is not there. */
export interface Program {
  /** Its usual name. */
  readonly title: string
  readonly file: string
  /** Folders beside those on the PATH. */
  readonly places: readonly string[]
  readonly debianPackage: string
  /** The environment variable that may name a server instead, where any server will do. */
  readonly variable?: string
}

/** Keeps Debian's package from starting a server of its own, as Debian's policy provides for. */
const WITHOUT_STARTING = (name: string) => `
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\\nexit 101\\n' > $policy
    chmod +x $policy
    trap 'rm $policy' EXIT
  fi
  apt-get update
  apt-get install -y --no-install-recommends ${name}
`

/** Where a program is: on the PATH, in its usual place, or there once it is installed. */
export async function findProgram({ title, file, places, debianPackage, variable }: Program): Promise<string> {
  const find = () =>
    [...places, ...(process.env.PATH ?? '').split(delimiter)].map(place => join(place, file)).find(existsSync)
  const there = find()
  if (there !== undefined) return there

  const instead = variable === undefined ? '' : `, or name a server in ${variable}`
  const advice = `Install ${title} (on Debian: apt-get install ${debianPackage})${instead}.`
  if (!(await canInstall())) throw new Error(`The tests need ${title}, and it is not on this machine. ${advice}`)
  process.stderr.write(`Installing ${title} (once) …\n`)
  try {
    await installing(WITHOUT_STARTING(debianPackage))
  } catch (cause) {
    throw new Error(`The tests need ${title}, and it could not be installed. ${advice}`, { cause })
  }
  const installed = find()
  if (installed === undefined)
    throw new Error(`${title} was installed, but its program '${file}' is not there. ${advice}`)
  return installed
}
