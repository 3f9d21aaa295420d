// What retrying adds to a bundle.
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
  rows.push({ name, minifiedKb: contents.length / 1000, gzippedKb: gzipSync(contents, { level: 9 }).length / 1000 })
}

console.log(
  JSON.stringify([
    {
      title: "Size of `import { retry } from 'redrive'`, and of the same in its peers",
      columns: [
        { key: 'minifiedKb', head: 'minified KB', digits: 2 },
        { key: 'gzippedKb', head: 'gzipped KB', digits: 2 },
      ],
      rows,
      target: { row: 'redrive', key: 'gzippedKb', max: 6 },
    },
  ]),
)
