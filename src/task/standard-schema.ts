import type { PayloadCheck } from '../engine/internal.js'
import { failureText } from '../telemetry/index.js'
import { PayloadError } from './errors.js'

/**
 * A schema of any validation library that follows the Standard Schema, such as valibot, zod or arktype. It validates
 * `Input` and may transform it to `Output`: fill in a default, or turn text into a date.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  /** The interface that libraries share: see https://standardschema.dev. */
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    /** Never there: it is for the compiler alone. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }

interface SchemaIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** The value as the schema makes it, or what is wrong with it, in words. */
export async function validate<Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
): Promise<{ readonly value: Output } | { readonly problem: string }> {
  const result = await schema['~standard'].validate(value)
  if (result.issues === undefined) return { value: result.value }
  return { problem: result.issues.slice(0, 5).map(inWords).join('; ') }
}

/** A stored payload as the schema makes it. Rejects with a `PayloadError` if it is no longer valid. */
export async function validPayload<Output>(
  kind: string,
  schema: StandardSchema<unknown, Output>,
  payload: unknown,
): Promise<Output> {
  const result = await validate(schema, payload)
  if ('problem' in result) throw new PayloadError(kind, result.problem)
  return result.value
}

/** Checks payloads against the schema of their task, if it has one. A schema that throws counts as a problem. */
export function payloadCheck({ schema }: { readonly schema: StandardSchema | undefined }): PayloadCheck | undefined {
  if (schema === undefined) return undefined
  return async payload => {
    try {
      const result = await validate(schema, payload)
      return 'problem' in result ? result.problem : undefined
    } catch (failure) {
      return failureText(failure)
    }
  }
}

function inWords({ message, path = [] }: SchemaIssue): string {
  const keys = path.map(part => String(typeof part === 'object' ? part.key : part))
  return keys.length === 0 ? message : `${keys.join('.')}: ${message}`
}
