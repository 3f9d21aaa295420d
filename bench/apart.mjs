import { spawnSync } from 'node:child_process'

/** Runs a suite's file again in a process of its own, for one contestant, and returns what it prints. */
export function measureApart(file, contestant) {
  console.error(`  ${contestant}`)
  const { status, stdout } = spawnSync(process.execPath, ['--expose-gc', file, contestant], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`${contestant} failed: see above.`)
  return JSON.parse(stdout)
}
