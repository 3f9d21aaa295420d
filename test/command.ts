import type { Environment } from '../src/cli/environment.js'
import { run } from '../src/cli/run.js'

/** Where a command runs with nobody at the keyboard, and nobody listening. */
export function quietEnvironment(overrides: Partial<Environment> = {}): Environment {
  return {
    stdout: { write: () => {} },
    stderr: { write: () => {} },
    env: {},
    cwd: '/',
    isTTY: { stdin: false, stdout: false, stderr: false },
    user: 'ada',
    prompt: () => Promise.reject(new Error('nobody should be asked')),
    load: path => import(/* @vite-ignore */ path),
    onSignal: () => () => {},
    ...overrides,
  }
}

/** Runs the command in this process, and keeps what it says. */
export async function runCommand(argv: readonly string[], overrides: Partial<Environment> = {}) {
  let [out, err] = ['', '']
  const stdout = { write: (text: string) => (out += text) }
  const stderr = { write: (text: string) => (err += text) }
  const code = await run(argv, quietEnvironment({ stdout, stderr, ...overrides }))
  return { code, out, err, json: () => JSON.parse(out), lines: () => out.trimEnd().split('\n') }
}
