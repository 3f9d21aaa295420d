// Makes dist/ from src/: plain tsc, from scratch, so that nothing of an earlier build is left in the package.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'

rmSync('dist', { recursive: true, force: true })
const { status } = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'], {
  stdio: 'inherit',
})
if (status === 0) {
  for (const folder of ['schema', 'functions'])
    cpSync(`src/store/postgres/${folder}`, `dist/store/postgres/${folder}`, {
      recursive: true,
      filter: file => !file.endsWith('.md'),
    })
  chmodSync('dist/cli/main.js', 0o755)
}
process.exit(status ?? 1)
