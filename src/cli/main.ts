#!/usr/bin/env node
import { userInfo } from 'node:os'
import { createInterface } from 'node:readline'
import type { Environment } from './environment.js'
import { loadFile } from './load-file.js'
import { run } from './run.js'

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

const environment: Environment = {
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  isTTY: {
    stdin: process.stdin.isTTY === true,
    stdout: process.stdout.isTTY === true,
    stderr: process.stderr.isTTY === true,
  },
  columns: process.stdout.columns ?? process.stderr.columns,
  user: userName(),
  prompt,
  load: loadFile,
  onSignal: callback => {
    for (const signal of SIGNALS) process.on(signal, callback)
    return () => {
      for (const signal of SIGNALS) process.off(signal, callback)
    }
  },
}

// The reader has seen enough, as in `redrive task ls | head`.
process.stdout.on('error', error => process.exit('code' in error && error.code === 'EPIPE' ? 0 : 1))
// A closed stderr is no reason to exit: a worker may have tasks running.
process.stderr.on('error', () => {})

const code = await run(process.argv.slice(2), environment)
// A handler that outlived its grace may still be running, so the process has to be ended, once everything is written.
process.stdout.write('', () => process.stderr.write('', () => process.exit(code)))

function prompt(question: string): Promise<string> {
  return new Promise(resolve => {
    const lines = createInterface({ input: process.stdin, output: process.stderr })
    let answer: string | undefined
    lines.on('close', () => {
      // Ctrl-C and Ctrl-D leave the cursor on the line of the question.
      if (answer === undefined) process.stderr.write('\n')
      resolve(answer ?? '')
    })
    lines.question(question, text => {
      answer = text
      lines.close()
    })
  })
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // In a container, a user may have no name.
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
}
