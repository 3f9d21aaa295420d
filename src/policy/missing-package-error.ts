import { FinalError } from './final-error.js'

/** A package that this part of Redrive needs is not there, or does not load: one with a native part, say, that was not built. */
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
