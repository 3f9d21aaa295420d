import { OptionError } from 'redrive'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ownPostgres } from './own-postgres.js'
import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { NO_JSON, poisonFaults } from './suites/poison.js'

diceOf('poison on PostgreSQL')
const postgres = ownPostgres()
const openScene = async () => Scene.on(await postgres.server.createDatabase())

poisonFaults({ openScene, noJson: NO_JSON })

describe('a text that PostgreSQL cannot hold', () => {
  let scene: Scene
  beforeEach(async () => {
    scene = await openScene()
  })
  afterEach(() => scene.close())

  it.each(['\ud800', '"\0"'])(
    'is refused when it is enqueued, and those who share the call’s turn are not: %j',
    async bad => {
      const good = { kind: 'echo', payload: '1' }
      const results = await Promise.allSettled([
        scene.store.enqueue([good]),
        scene.store.enqueue([good, { kind: 'echo', payload: bad }]),
        scene.store.enqueue([good]),
      ])
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
      expect(results[1]).toMatchObject({ reason: expect.any(OptionError) })
      expect(await scene.store.count({})).toMatchObject({ waiting: 2 })
    },
  )
})
