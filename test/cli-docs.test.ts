import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { readPage, runSteps } from './doc-steps.js'

describe('the command lines in docs/cli.md', () => {
  const { files, steps } = readPage('docs/cli.md')
  runSteps(
    steps,
    files.filter(({ name }) => !name.startsWith('redrive.config')),
  )

  it('are there for every command that works on a store', () => {
    const commands = `worker stats migrate backup move prune
      task-ls task-show task-cancel dlq-ls dlq-count dlq-show dlq-redrive dlq-discard
      lane-ls lane-pause lane-resume lane-limit audit-tail audit-verify policy-report`
    const missing = commands
      .split(/\s+/)
      .map(name => `npx redrive ${name.replace('-', ' ')}`)
      .filter(command => !steps.some(({ line }) => `${line} `.startsWith(`${command} `)))
    expect(missing).toEqual([])
  })
})

describe('the command lines in docs/how-to/stuck-rows.md', () => {
  const { text, files, steps } = readPage('docs/how-to/stuck-rows.md')
  runSteps(steps, files, folder => {
    const [, sql = ''] = /db\.exec\(`([^`]+)`\)/.exec(text) ?? []
    const db = new Database(join(folder, 'app.db'))
    db.exec(sql)
    db.close()
  })
})
