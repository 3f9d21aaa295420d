import { OptionError } from '../../policy/index.js'

/**
 * The path of a SQLite file, given as such or as a URL: `sqlite:./redrive.db`, `sqlite:///var/lib/redrive.db`. A text that is
 * refused is not repeated, since it may be a URL with a password.
 */
export function sqliteFile(given: unknown): string {
  const isUrl = typeof given === 'string' && /^sqlite:/i.test(given)
  const path = typeof given === 'string' ? given.replace(/^sqlite:(\/\/(?=\/))?/i, '') : ''
  if (path === '' || path.startsWith(':')) {
    throw new OptionError(
      'path',
      `'path' names no file. Pass a path such as '.redrive/redrive.db', or a URL such as 'sqlite:./.redrive/redrive.db' or 'sqlite:///var/lib/redrive.db'. Work that need not outlive the process can use a MemoryStore.`,
    )
  }
  // On Windows a path begins with a single letter and a colon.
  const [scheme] = /^([a-z][a-z0-9+.-]+:|\/\/)/i.exec(path) ?? []
  if (scheme !== undefined) {
    throw new OptionError(
      'path',
      `'path' names no file: it begins with '${scheme}'. Pass one such as '.redrive/redrive.db' or 'sqlite:///var/lib/redrive.db'.`,
    )
  }
  if (isUrl && path.includes('?'))
    throw new OptionError('path', `The URL of a SQLite file has no parameters: leave out '?' and what follows it.`)
  return path
}
