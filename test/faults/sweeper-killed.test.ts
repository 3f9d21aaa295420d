import { it } from 'vitest'
import { BROKER_MS } from '../services/shared-broker.js'
import { type Step, survive } from './killed-sweeper.js'

const STEPS: readonly Step[] = [
  ['source', 'change', 1, 'after'], // Updated, and not published.
  ['bus', 'publish', 2, 'after'], // A part of the page is published.
  ['store', 'enqueue', 1, 'after'], // Exhausted documents have dead letters, and are not marked.
]

it('sweepers that are killed publish and count each attempt once, and leave a dead letter for each document', {
  timeout: BROKER_MS,
}, async () => {
  await Promise.all(STEPS.map(survive))
})
