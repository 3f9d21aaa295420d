import { it } from 'vitest'
import { BROKER_MS } from '../services/shared-broker.js'
import { type Step, survive } from './killed-sweeper.js'

const STEPS: readonly Step[] = [
  ['source', 'change', 1, 'before'], // Nothing has happened.
  ['source', 'change', 2, 'before'], // A page is done.
  ['source', 'change', 5, 'after'],
  ['bus', 'publish', 1, 'before'],
  ['bus', 'publish', 7, 'after'],
  ['store', 'enqueue', 1, 'before'], // The first documents are exhausted.
  ['store', 'enqueue', 2, 'after'],
  ['store', 'list', 4, 'after'], // Between two sweeps.
]

it('sweepers that are killed publish and count each attempt once, and leave a dead letter for each document', {
  timeout: BROKER_MS,
}, async () => {
  await Promise.all(STEPS.map(survive))
})
