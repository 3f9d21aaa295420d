import type { FailureGroup } from '../../contract/group-store.js'

/** `Error: order * not found`: a group for people. The class is not said twice, as where an error repeats that of its cause. */
export function groupTitle({ errorName, pattern }: Pick<FailureGroup, 'errorName' | 'pattern'>): string {
  if (errorName === '' || pattern === '') return errorName + pattern
  const isSaid = pattern === errorName || pattern.startsWith(`${errorName}:`) || pattern.startsWith(`${errorName} `)
  return isSaid ? pattern : `${errorName}: ${pattern}`
}
