import { describe, expect, it } from 'vitest'
import { Outages } from '../attempt/index.js'
import { SETTLED, type Settlement } from '../store/contract/claim.js'
import { systemClock } from '../time/index.js'
import { Settler } from './settler.js'

describe('a settler', () => {
  it('settles attempts together that end in the same turn, even while a batch is answered', async () => {
    const batches: string[][] = []
    const settle = async (batch: readonly Settlement[]) => {
      batches.push(batch.map(({ id }) => id))
      return batch.map(() => SETTLED)
    }
    const outages = new Outages(undefined, () => false)
    const settler = new Settler({ settle }, systemClock, outages, {
      onSettled() {
        if (batches.length > 1) return
        settler.add(success('at once'))
        void later(10).then(() => settler.add(success('a few microtasks later')))
      },
      onAnswer() {},
      onLocked() {},
    })
    settler.add(success('first'))
    await settler.flush()
    expect(batches).toEqual([['first'], ['at once', 'a few microtasks later']])
  })
})

function success(id: string): Settlement {
  return { id, token: 't', outcome: { type: 'succeeded' } }
}

async function later(microtasks: number): Promise<void> {
  for (let n = 0; n < microtasks; n++) await undefined
}
