import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { canInstall, installing } from './debian.js'

const DEBIAN = '/usr/lib/postgresql'

/** Without the cluster that Debian's package would otherwise make and start. */
const INSTALL = `
  apt-get update
  apt-get install -y --no-install-recommends postgresql-common
  conf=/etc/postgresql-common/createcluster.conf
  pg_conftool $conf set create_main_cluster off
  apt-get install -y --no-install-recommends postgresql
  pg_conftool $conf remove create_main_cluster
`

/** The folder of PostgreSQL's programs: on the PATH, in Debian's place for them, or there once they are installed. */
export async function postgresPrograms(places: () => readonly string[] = usualPlaces): Promise<string> {
  const there = places().find(hasServer)
  if (there !== undefined) return there

  const advice = `Install PostgreSQL (on Debian: apt-get install postgresql), or name a server in REDRIVE_TEST_POSTGRES_URL.`
  if (!(await canInstall())) throw new Error(`The tests need PostgreSQL, and it is not on this machine. ${advice}`)
  process.stderr.write('Installing PostgreSQL (once) …\n')
  try {
    await installing(INSTALL)
  } catch (cause) {
    throw new Error(`The tests need PostgreSQL, and it could not be installed. ${advice}`, { cause })
  }
  const installed = debianFolders().find(hasServer)
  if (installed === undefined) throw new Error(`PostgreSQL was installed, but is not in ${DEBIAN}. ${advice}`)
  return installed
}

const hasServer = (folder: string) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres'))

function usualPlaces(): string[] {
  return [...(process.env.PATH ?? '').split(delimiter), ...debianFolders()]
}

/** Debian keeps the programs of each version apart, off the PATH. Newest first. */
function debianFolders(): string[] {
  if (!existsSync(DEBIAN)) return []
  return readdirSync(DEBIAN)
    .sort((a, b) => Number(b) - Number(a))
    .map(version => join(DEBIAN, version, 'bin'))
}
