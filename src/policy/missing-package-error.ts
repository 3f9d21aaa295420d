import { FinalError } from './final-error.js'

/**
 * Thrown when a package that this part of Redrive needs is not installed, or does not load, for example because its
 * native part was not built.
 */
export class MissingPackageError extends FinalError {
  static {
    MissingPackageError.prototype.name = 'MissingPackageError'
  }

  constructor(part: string, name: string, range: string, options?: ErrorOptions) {
    const problem = loadProblem(options?.cause)
    const install = `npm install ${name}@${range}`
    const advice =
      problem === undefined
        ? `which is not installed. Run: ${install}`
        : `which does not load (${problem}). Run: ${install}, or if it is installed already: npm rebuild ${name}`
    super(`${part} needs the package '${name}', ${advice}`, { ...options, code: 'missing_package' })
  }
}

/** Why a package that is there does not load, in one line; `undefined` if it is not there. */
function loadProblem(cause: unknown): string | undefined {
  if (!(cause instanceof Error) || ('code' in cause && /MODULE_NOT_FOUND$/.test(String(cause.code)))) return undefined
  return cause.message.split('\n', 1)[0]?.slice(0, 200)
}
