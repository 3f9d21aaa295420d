import type { Collection, DocumentSource } from '../../../document/index.js'
import { failedSet, resetDocument, resetTarget } from '../../../document/internal.js'
import { findSame, runUntilStopped } from '../../../operate/internal.js'
import { MemoryStore } from '../../../store/internal.js'
import { redact } from '../../../telemetry/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, errorText } from '../../errors.js'
import { writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { quoted } from '../../terminal/visible.js'
import { endOf } from '../dlq/letter-selection.js'
import { leaveOutside, leftAlone, refusedText } from '../ops/text.js'
import { goOnText, type RecordOptions, withRecord } from '../shared/recorded.js'
import { type BulkOptions, checkSelection, countOf, failedDocument, failedOnes } from './bulk.js'
import { collectionNamed, withSource } from './options.js'

/** Refusals of the database that are printed. */
const MAX_SHOWN = 5

/** Gives failed documents all their attempts again. */
export function resetAll(
  context: CommandContext,
  name: string,
  id: string | undefined,
  options: BulkOptions & RecordOptions,
): Promise<ExitCode> {
  const { console, environment } = context
  checkSelection(id, options)
  return withSource(options, environment, async (source, collections) => {
    const collection = collectionNamed(collections, name)
    const document = id === undefined ? undefined : await failedDocument(source, collection, id)
    if (options.dryRun) {
      const matching = document === undefined ? await countOf(failedOnes(source, collection, options)) : 1
      writeResult(console, options.output, { collection: name, wouldReset: matching, reset: 0 })
      console.say(`${matching} would be reset in ${quoted(name)}. This was a dry run: 0 reset.`)
      return ExitCode.done
    }
    if (document === undefined) return resetMany(context, source, collection, options)
    const reset = (await resetDocument(source, collection, document)) ? 1 : 0
    writeResult(console, options.output, { collection: name, reset })
    console.say(`${reset} reset in ${quoted(name)}.`)
    if (reset === 0) console.say('It has changed meanwhile. Run the same command again.')
    return endOf(reset, 1 - reset)
  })
}

/** Without a store to keep its record, the operation is the same, and forgotten with this process. */
function resetMany(
  context: CommandContext,
  source: DocumentSource,
  collection: Collection,
  options: BulkOptions & RecordOptions,
): Promise<ExitCode> {
  const { console, environment } = context
  return withRecord(options, environment, async record => {
    const { store = new MemoryStore(), ...by } = record ?? { who: environment.user }
    const { limit, rate: perSecond } = options
    const settings = { ...(limit !== undefined && { limit }), ...(perSecond !== undefined && { perSecond }) }
    const set = await failedSet(source, collection, options)
    const wanted = { act: 'reset', set, by, settings } as const
    const created = (await findSame(store, wanted)) ?? (await store.operations.create(wanted))
    if (options.detach) return leaveOutside(context, options.output, created)
    const { id } = created
    const recorded = record === undefined ? null : id
    let shown = 0
    const outside = resetTarget(source, [collection], (document, error) => {
      if (shown++ < MAX_SHOWN) console.say(`${quoted(document.id)} was refused: ${redact(errorText(error))}`)
    })
    const total = Math.min(set.count, limit ?? Infinity)
    const counting = { total, verb: 'reset', unit: 'batch', rest: goOnText(recorded) }
    const operation = await withCount(context, counting, ({ signal, onProgress }) =>
      runUntilStopped(store, id, by, { signal, outside, onProgress: ({ moved }) => onProgress(moved) }),
    )
    const { moved: reset, progress, status, reason } = operation
    const isStopped = status === 'stopped'
    const { refused } = progress
    writeResult(console, options.output, {
      collection: collection.name,
      reset,
      refused,
      isStopped,
      operation: recorded,
    })
    console.say(`${reset} reset in ${quoted(collection.name)}.`)
    for (const [why, count] of Object.entries(refused)) console.say(refusedText(why, count))
    if (!isStopped) return endOf(reset, leftAlone(refused))
    console.say(`${reason} ${goOnText(recorded)}`)
    return ExitCode.partly
  })
}
