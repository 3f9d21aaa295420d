// Makes dist/, or the folder that is named, from src/: plain tsc, from scratch, so that nothing of an earlier build is left in
// the package. With --no-check only the code, without types, for which tsc would need all packages.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'

const dist = process.argv.slice(2).find(argument => !argument.startsWith('--')) ?? 'dist'
rmSync(dist, { recursive: true, force: true })
const tsc = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', dist]
if (process.argv.includes('--no-check')) tsc.push('--noCheck', '--declaration', 'false')
const { status } = spawnSync(process.execPath, tsc, { stdio: 'inherit' })
if (status === 0) {
  for (const folder of ['schema', 'functions'])
    cpSync(`src/store/postgres/${folder}`, `${dist}/store/postgres/${folder}`, {
      recursive: true,
      filter: file => !file.endsWith('.md'),
    })
  chmodSync(`${dist}/cli/main.js`, 0o755)
}
process.exit(status ?? 1)
