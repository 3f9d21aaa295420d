import { inject } from 'vitest'

/** The url of an empty database of its own, on the PostgreSQL that all test files share. */
export async function freshDatabase(): Promise<string> {
  const response = await fetch(inject('services'))
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}
