import { JetStreamApiError } from '@nats-io/jetstream'
import { expect, it } from 'vitest'
import { createTogether } from './create-together.js'

const apiError = (err_code: number, description: string) => new JetStreamApiError({ code: 400, err_code, description })
const overlap = apiError(10065, 'subjects overlap with an existing stream')
const inUse = apiError(10058, 'stream name already in use')
const forbidden = apiError(10023, 'insufficient resources')

/** Fails with the given errors, one per call, and succeeds from then on. */
function failing(...errors: Error[]) {
  let calls = 0
  const create = async () => {
    const error = errors[calls++]
    if (error !== undefined) throw error
    return 'opened'
  }
  return { create, calls: () => calls }
}

it('asks again when another process creates the same stream at that moment', async () => {
  const { create, calls } = failing(overlap, inUse, overlap)
  expect(await createTogether(create)).toBe('opened')
  expect(calls()).toBe(4)
})

it("gives up on an overlap that stays: the stream is somebody else's", async () => {
  const { create, calls } = failing(...Array.from({ length: 100 }, () => overlap))
  await expect(createTogether(create)).rejects.toBe(overlap)
  expect(calls()).toBe(5)
})

it('does not ask again after any other error', async () => {
  const { create, calls } = failing(forbidden)
  await expect(createTogether(create)).rejects.toBe(forbidden)
  expect(calls()).toBe(1)
})
