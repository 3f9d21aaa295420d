const SEMVER = /^v?(\d{1,15})\.(\d{1,15})\.(\d{1,15})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/

/** Whether a release is the same as another one or later; `undefined` if they are not both semantic versions. */
export function isAtOrAfter(release: string, other: string): boolean | undefined {
  const [key, otherKey] = [versionKey(release), versionKey(other)]
  if (key === undefined || otherKey === undefined) return undefined
  const differing = key.findIndex((part, index) => part !== otherKey[index])
  // Of two versions that begin alike, the one with more parts is later.
  return differing === -1 ? key.length >= otherKey.length : (key[differing] ?? '') > (otherKey[differing] ?? '')
}

/** The parts of a semantic version, so that they compare as texts: `redrive.version_key` is the same in SQL. */
function versionKey(release: string): string[] | undefined {
  const [match, major = '', minor = '', patch = '', pre] = SEMVER.exec(release) ?? []
  if (match === undefined) return undefined
  const core = [major, minor, patch].map(padded)
  // `~` comes after all letters and digits: a release is later than its pre-releases.
  if (pre === undefined) return [...core, '~']
  return [...core, ...pre.split('.').map(part => (/^\d{1,15}$/.test(part) ? `0${padded(part)}` : `1${part}`))]
}

function padded(digits: string): string {
  return digits.padStart(15, '0')
}
