import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** Runs a file in a process of its own, which says so when it is ready. */
export async function startProcess(url, args) {
  const child = fork(fileURLToPath(url), args)
  child.on('exit', code => {
    if (code !== 0) throw new Error('A process of the benchmark failed: see above.')
  })
  await once(child, 'message')
  return child
}

/** Whether a file is what this process was started for. */
export const isMain = url => process.argv[1] === fileURLToPath(url)
