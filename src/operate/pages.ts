import type { Page, PageRequest } from '../store/index.js'

/** The size of a page where no person looks at it. */
const PAGE = 500

/** Walks through a list of any length, page by page, so that it takes little memory. */
export async function* pagesOf<T>(read: (page: PageRequest) => Promise<Page<T>>): AsyncGenerator<readonly T[]> {
  let after: string | undefined
  do {
    const { items, next } = await read({ limit: PAGE, after })
    yield items
    after = next
  } while (after !== undefined)
}
