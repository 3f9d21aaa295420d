import {
  type Collection,
  type DocumentRecord,
  type DocumentSource,
  NoCollectionError,
} from '../../../document/index.js'
import { cutOf, type DocumentExplanation, explainDocument } from '../../../document/internal.js'
import { suggest } from '../../suggest.js'
import type { Console } from '../../terminal/console.js'
import { type OutputFormat, writeOne } from '../../terminal/output.js'
import { moment } from '../../terminal/times.js'
import { visible } from '../../terminal/visible.js'
import type { DocumentOptions } from './options.js'
import { attemptsText, documentView, lastAttemptText } from './view.js'

const STATES: Readonly<Record<DocumentExplanation['state'], string>> = {
  never_attempted: 'It was never attempted, and is not old enough to be stuck.',
  under_way: 'Its last attempt may still be under way.',
  scheduled: 'It was dispatched, is in backoff, or was requeued for a later time.',
  in_backoff: 'It is stuck, and waits for its backoff.',
  due: 'It is stuck, and the next sweep requeues it.',
  exhausted: 'It has used up its attempts: the next sweep marks it as failed.',
  unstarted: 'It was dispatched ten times without a start. Does its service call begin()?',
  unreadable: 'Its fields cannot be read: sweeps leave it alone, and report it.',
  failed: 'It has failed. To give it all its attempts again, run:',
  closed: 'It is neither pending nor processing: sweeps leave it alone.',
}

/** Prints what the next sweep does with a document, and when. */
export async function printDocumentWhy(
  console: Console,
  source: DocumentSource,
  collection: Collection,
  document: DocumentRecord,
  options: DocumentOptions & { readonly output: OutputFormat },
): Promise<void> {
  const { name } = collection
  const { id } = document
  const cut = await cutOf(source, collection)
  const { state, nextAt, maxAttempts } = explainDocument(collection, document, cut)
  const view = { ...documentView(collection, document), state, maxAttempts, nextAt: nextAt ?? null }
  writeOne(console, options.output, view, () =>
    [
      `${visible(`${name}/${id}: ${document.status}`)}, attempt ${attemptsText(view)} of ${maxAttempts}`,
      `last attempt: ${lastAttemptText(view, at => moment(at, cut.now))}`,
      ...(document.lastError === undefined ? [] : [visible(`last error: ${document.lastError}`)]),
      STATES[state],
      ...(state === 'failed' ? [`    ${console.paint.cyan(suggest('docs reset', {}, name, id))}`] : []),
      ...(document.problem === undefined ? [] : [`${document.problem}.`]),
      ...(nextAt === undefined ? [] : [`A sweep looks at it again at ${moment(nextAt, cut.now)}.`]),
    ].join('\n'),
  )
}

/** The documents with this id, in whichever of the collections. A collection that does not exist has none. */
export async function documentsWithId(
  source: DocumentSource,
  collections: readonly Collection[],
  id: string,
): Promise<readonly { readonly collection: Collection; readonly document: DocumentRecord }[]> {
  const found = []
  for (const collection of collections) {
    const document = await source.find(collection.shape, id).catch((error: unknown) => {
      if (error instanceof NoCollectionError) return undefined
      throw error
    })
    if (document !== undefined) found.push({ collection, document })
  }
  return found
}
