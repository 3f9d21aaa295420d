export * from './policy/index.js'
