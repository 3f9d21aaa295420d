import { Long, ObjectId } from 'mongodb'
import { expect, it } from 'vitest'
import { collectionOf } from '../collection.js'
import { toRecord } from './fields.js'

const { shape } = collectionOf({ name: 'archives', event: { type: 'x', data: () => ({}) } })

it('the data of a document has integers that a number cannot hold as text, however deep, and everything else as it is', () => {
  const document = {
    _id: new ObjectId(),
    size: Long.fromString('9007199254740993'),
    parts: [{ offset: Long.fromString('-9007199254740993'), length: 3 }],
    at: new Date(5),
  }
  const { data } = toRecord(shape, document)
  expect(data).toEqual({
    _id: document._id,
    size: '9007199254740993',
    parts: [{ offset: '-9007199254740993', length: 3 }],
    at: new Date(5),
  })
})

it('a tracking field is compared as it was read', () => {
  const attemptCount = Long.fromString('9007199254740993')
  expect(toRecord(shape, { _id: 'a', attemptCount }).asRead).toMatchObject({ attemptCount })
})
