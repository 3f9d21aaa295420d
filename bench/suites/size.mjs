// Measures how much retrying adds to a bundle.
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { contestants } from '../contestants/index.mjs'

const resolveDir = fileURLToPath(new URL('..', import.meta.url))
const rows = []
for (const { name, entry } of contestants) {
  if (entry === undefined) continue
  const { outputFiles } = await build({
    stdin: { contents: entry, resolveDir },
    bundle: true,
    minify: true,
    treeShaking: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    write: false,
  })
  const [{ contents }] = outputFiles
  rows.push({ name, minified: contents.length, gzipped: gzipSync(contents, { level: 9 }).length })
}

console.log(
  JSON.stringify([
    {
      title: "Size of `import { retry } from 'redrive'`, and of the same in its peers",
      columns: [
        { key: 'minified', head: 'minified bytes', digits: 0 },
        { key: 'gzipped', head: 'gzipped bytes', digits: 0 },
      ],
      rows,
      target: { row: 'redrive', key: 'gzipped', max: 7168 },
    },
  ]),
)
