import { StepError } from '../errors.js'

/**
 * The `step` of a context that has none. Its type leaves it out; code without types would get a TypeError for it, which is
 * retried.
 */
export function noSteps(place: string, advice: string): (name: unknown) => never {
  return name => {
    const step = String(name)
    throw new StepError('step_unsupported', step, `The step '${step}' was not run: ${place} have no steps. ${advice}`)
  }
}
