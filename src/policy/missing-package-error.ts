import { FinalError } from './final-error.js'

/** A package that this part of Redrive needs is not there, or does not load. */
export class MissingPackageError extends FinalError {
  static {
    MissingPackageError.prototype.name = 'MissingPackageError'
  }

  constructor(part: string, name: string, range: string, options?: ErrorOptions) {
    super(`${part} needs the package '${name}', which does not load here. Run: npm install ${name}@${range}`, {
      ...options,
      code: 'missing_package',
    })
  }
}
