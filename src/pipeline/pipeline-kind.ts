/** The kind of a pipeline's items in the store. */
export function pipelineKind(name: string): string {
  return `pipeline:${name}`
}
