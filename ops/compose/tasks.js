// The tasks of the worker in compose.yml. Replace them by your own.
import { defineTask } from 'redrive/task'

export const greet = defineTask('greet', {
  handler: async ({ name }) => console.log(`Hello, ${name}.`),
})
