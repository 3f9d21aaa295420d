/** Whether a task is an item of a pipeline: then its category is its stage, and its key its run. */
export function isItem({ kind = '' }: { readonly kind?: string | undefined }): boolean {
  return kind.startsWith('pipeline:')
}
