import fc from 'fast-check'
import { expect, it } from 'vitest'
import { MemoryHeap } from './heap.js'

it('gives what it was given in order, whatever was taken and dropped in between', () => {
  const step = fc.oneof(fc.integer({ min: 0, max: 50 }), fc.constant('pop' as const))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), steps => {
      const isWanted = (item: number) => item % 7 !== 3
      const heap = new MemoryHeap<number>((a, b) => a < b, isWanted)
      let sorted: number[] = []
      for (const item of steps) {
        if (item === 'pop') expect(heap.pop()).toBe(sorted.shift())
        else {
          heap.push(item)
          sorted = [...sorted, item].filter(isWanted).sort((a, b) => a - b)
        }
        expect(heap.peek()).toBe(sorted[0])
      }
    }),
  )
})
