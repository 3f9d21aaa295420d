// Installs what is missing: all dependencies, or with `start` only those that the demo needs.
import { install } from './install.mjs'

const DEMO = ['@types/node', 'better-sqlite3', 'tsx', 'typescript']

if (process.argv[2] === 'start') install('.', 'what the demo needs', DEMO)
else install('.', 'dependencies')
