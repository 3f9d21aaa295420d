import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { MemoryBus } from '../bus/index.js'
import { OptionError } from '../policy/index.js'
import { documentService, openSqliteSource, sweeper } from './index.js'

/** Makes a sweeper as JavaScript would: whatever the settings are. */
async function make(settings: object) {
  return Reflect.apply(sweeper, undefined, [{ source, bus: new MemoryBus(), ...settings }])
}

const source = await openSqliteSource(new Database(':memory:'))
const event = { type: 'invoice.requested', data: () => ({}) }
const invoices = { name: 'invoices', event }
const entry = { from: 'invoices', unless: 'letters', reference: 'invoice' }

describe('the settings of a collection', () => {
  it.each<[object, string]>([
    [{ stuckafter: '1h' }, "Collection 'invoices' takes no 'stuckafter'. Did you mean 'stuckAfter'?"],
    [{ polcy: {} }, "Collection 'invoices' takes no 'polcy'. Did you mean 'policy'?"],
    [{ policy: { attemps: 3 } }, 'attemps'],
    [{ statuses: { faild: 'x' } }, "'statuses' of collection 'invoices' takes no 'faild'. Did you mean 'failed'?"],
    [{ statuses: 'failed' }, "Collection 'invoices': 'statuses' must be an object; got 'failed'."],
    [{ fields: { attempts: 'n' } }, "'fields' of collection 'invoices' takes no 'attempts', only id, status, "],
    [{ event: undefined }, "Collection 'invoices': 'event' must be an object with 'type' and 'data'; got undefined."],
    [{ event: 'invoice.requested' }, "'event' must be an object with 'type' and 'data'; got 'invoice.requested'."],
    [{ event: { data: event.data } }, "Collection 'invoices': 'event.type' must be text; got undefined."],
    [{ event: { type: 'x' } }, "Collection 'invoices': 'event.data' must be a function; got undefined."],
    [{ event: { ...event, nme: 'x' } }, "'event' of collection 'invoices' takes no 'nme'. Did you mean 'name'?"],
    [{ blastRadius: { shares: 1 } }, "'blastRadius' of collection 'invoices' takes no 'shares'."],
    [{ priority: 'oldest' }, "Collection 'invoices': 'priority' must be an object; got 'oldest'."],
    [{ priority: {} }, "Collection 'invoices': 'priority.field' must be text; got undefined."],
    [{ lane: { key: 'x' } }, "Collection 'invoices': 'lane.kind' must be text; got undefined."],
    [{ archive: { after: '1d' } }, "Collection 'invoices': 'archive.into' must be the name of a collection"],
    [{ archive: { into: 'old' } }, "Collection 'invoices': 'archive.after' must be "],
    [{ archive: null }, "Collection 'invoices': 'archive' must be an object; got null."],
    [{ isHealthy: true }, "'isHealthy' must be of type function; got true."],
    [{ name: undefined }, "Every collection needs a name: 'name' must be text; got undefined."],
  ])('are refused: %j', async (settings, message) => {
    const collection = { ...invoices, ...settings }
    await expect(make({ collections: [collection] })).rejects.toThrow(message)
    const service = () => Reflect.apply(documentService, undefined, [{ source, collection }])
    expect(service).toThrow(message)
  })
})

describe('the settings of a sweeper', () => {
  it.each<[object, string]>([
    [{ intervall: '1m' }, "sweeper() takes no 'intervall'. Did you mean 'interval'?"],
    [{ collections: invoices }, "'collections' must be a list; got an object."],
    [{ collections: undefined }, "'collections' must be a list; got undefined."],
    [{ collections: ['invoices'] }, "'collections' must be a list of objects; got 'invoices'."],
    [{ bus: undefined }, "'bus' must be a bus, or a function that opens one; got undefined."],
    [{ source: 'sqlite:app.db' }, "'source' must be a source, or a function that opens one; got 'sqlite:app.db'."],
    [{ coverage: entry }, "'coverage' must be a list; got an object."],
    [{ coverage: [{ ...entry, minimumage: '1d' }] }, "takes no 'minimumage'. Did you mean 'minimumAge'?"],
    [{ coverage: [{ ...entry, reference: undefined }] }, "The coverage of 'invoices': 'reference' must be text"],
  ])('are refused: %j', async (settings, message) => {
    await expect(make({ collections: [invoices], ...settings })).rejects.toThrow(message)
    await expect(make({ collections: [invoices], ...settings })).rejects.toThrow(OptionError)
  })

  it('are refused for one sweep too: a dry run with a typo would be a sweep', async () => {
    const sweeps = await make({ collections: [invoices] })
    await expect(sweeps.sweep({ dryrun: true })).rejects.toThrow("sweep() takes no 'dryrun'. Did you mean 'dryRun'?")
  })
})
