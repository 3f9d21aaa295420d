import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Collection, DocumentRecord, DocumentSource } from '../../../document/index.js'
import { failedDocuments, findDocument, purgeDocuments } from '../../../document/internal.js'
import { exactJson } from '../../../policy/internal.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode, UsageError } from '../../errors.js'
import { confirm } from '../../terminal/confirm.js'
import { writeSlowly } from '../../terminal/console.js'
import { type OutputFormat, writeResult } from '../../terminal/output.js'
import { quoted, visibleJson } from '../../terminal/visible.js'
import { endOf } from '../dlq/letter-selection.js'
import { collectionNamed, type DocumentOptions, withSource } from './options.js'
import { documentView } from './view.js'

/** The flags of commands for many failed documents. */
export interface BulkOptions extends DocumentOptions {
  readonly output: OutputFormat
  readonly all?: boolean
  readonly error?: string
  readonly limit?: number
  readonly rate?: number
  readonly dryRun?: boolean
  readonly yes?: boolean
  readonly archive?: string
}

/** Checks that the arguments name an id or a filter. An empty filter must say --all. */
export function checkSelection(id: string | undefined, { all, error, limit }: BulkOptions): void {
  if (id !== undefined && (all || error !== undefined || limit !== undefined))
    throw new UsageError('Pass an id or a filter, not both.')
  if (id === undefined && !all && error === undefined)
    throw new UsageError('Which documents? Pass an id, --error or --all.')
}

/** A document that must have failed. */
export async function failedDocument(
  source: DocumentSource,
  collection: Collection,
  id: string,
): Promise<DocumentRecord> {
  const document = await findDocument(source, collection, id)
  if (document.status === collection.shape.statuses.failed) return document
  throw new CommandError(`Document ${quoted(id)} of ${quoted(collection.name)} is '${document.status}', not failed.`)
}

/** The failed documents that the filter selects. */
export function failedOnes(source: DocumentSource, collection: Collection, { error, limit }: BulkOptions) {
  return failedDocuments(source, collection, {
    ...(error !== undefined && { error }),
    ...(limit !== undefined && { limit }),
  })
}

/** The failed documents that the arguments name. */
function chosen(source: DocumentSource, collection: Collection, id: string | undefined, options: BulkOptions) {
  return id === undefined ? failedOnes(source, collection, options) : one(source, collection, id)
}

async function* one(source: DocumentSource, collection: Collection, id: string): AsyncIterable<DocumentRecord[]> {
  yield [await failedDocument(source, collection, id)]
}

/** The number of documents in some pages. */
export async function countOf(pages: AsyncIterable<readonly DocumentRecord[]>): Promise<number> {
  let count = 0
  for await (const page of pages) count += page.length
  return count
}

function paceOf({ rate: perSecond }: BulkOptions) {
  return perSecond === undefined ? {} : { perSecond }
}

/** Writes the failed documents of a collection to a file. */
export function exportAll({ console, environment }: CommandContext, name: string, file: string, options: BulkOptions) {
  return withSource(options, environment, async (source, collections) => {
    const collection = collectionNamed(collections, name)
    const { error } = options
    // Documents may be private.
    const handle = file === '-' ? undefined : await open(resolve(environment.cwd, file), 'wx', 0o600)
    let exported = 0
    try {
      for await (const page of failedDocuments(source, collection, error === undefined ? {} : { error })) {
        const lines = page.map(
          document => `${exactJson({ ...documentView(collection, document), data: document.data })}\n`,
        )
        if (handle === undefined) await writeSlowly(environment.stdout, lines.map(visibleJson).join(''))
        else await handle.appendFile(lines.join(''))
        exported += page.length
      }
    } finally {
      await handle?.close()
    }
    console.say(`${exported} exported from ${quoted(name)}. They are still there.`)
    return ExitCode.done
  })
}

/** Deletes failed documents for good. */
export function purgeAll(
  { console, environment }: CommandContext,
  name: string,
  id: string | undefined,
  options: BulkOptions,
) {
  checkSelection(id, options)
  return withSource(options, environment, async (source, collections) => {
    const collection = collectionNamed(collections, name)
    const matching = await countOf(chosen(source, collection, id, options))
    if (options.dryRun) {
      writeResult(console, options.output, { collection: name, wouldPurge: matching, purged: 0 })
      console.say(`${matching} would be purged from ${quoted(name)}. This was a dry run: 0 purged.`)
      return ExitCode.done
    }
    if (!options.yes) {
      const answer = await confirm(environment, `Delete ${matching} documents from ${quoted(name)} for good?`)
      if (answer === 'no') throw new UsageError('Not confirmed. 0 purged.')
      if (answer === 'unasked')
        throw new UsageError(`This would delete ${matching} documents for good. To confirm, pass --yes. 0 purged.`)
    }
    const into = options.archive === undefined ? {} : { into: options.archive }
    const pages = chosen(source, collection, id, options)
    const purged = await purgeDocuments(source, collection, pages, { ...paceOf(options), ...into })
    writeResult(console, options.output, { collection: name, purged })
    console.say(`${purged} purged from ${quoted(name)}.`)
    const changed = Math.max(0, matching - purged)
    if (changed > 0) console.say(`${changed} left alone: they have changed meanwhile.`)
    return endOf(purged, changed)
  })
}
