// Refuses to publish a package whose address is still the placeholder: see CONTRIBUTING.md.
import { readFileSync } from 'node:fs'

const { repository, homepage, bugs } = JSON.parse(readFileSync('package.json', 'utf8'))
const unset = Object.entries({ repository: repository.url, homepage, bugs }).filter(([, url]) =>
  url.includes('example.invalid'),
)
if (unset.length > 0) {
  console.error(`Set ${unset.map(([field]) => field).join(', ')} in package.json before you publish.`)
  process.exit(1)
}
