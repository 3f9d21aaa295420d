// Writes the API reference to docs/api, one page per import, from the TSDoc of all that package.json exports. With --check, writes
// nothing, and fails if an exported member has no TSDoc.
import { readFileSync } from 'node:fs'
import { Application, ReflectionKind, TSConfigReader } from 'typedoc'

const root = new URL('..', import.meta.url).pathname
const { exports } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'))
/** Each source file with the name of its import. */
const imports = new Map(
  Object.entries(exports).flatMap(([path, target]) =>
    typeof target === 'string'
      ? []
      : [[target.default.replace(/^\.\/dist\/(.*)\.js$/, 'src/$1.ts'), path.replace(/^\./, 'redrive')]],
  ),
)

const app = await Application.bootstrapWithPlugins(
  {
    entryPoints: [...imports.keys()].map(file => `${root}${file}`),
    tsconfig: `${root}tsconfig.build.json`,
    plugin: ['typedoc-plugin-markdown'],
    router: 'module',
    name: 'API reference',
    readme: 'none',
    out: `${root}docs/api`,
    excludePrivate: true,
    excludeExternals: true,
    disableGit: true,
    sourceLinkTemplate: '{path}',
    skipErrorChecking: true,
    hidePageHeader: true,
    hideBreadcrumbs: true,
    parametersFormat: 'table',
    interfacePropertiesFormat: 'table',
    propertyMembersFormat: 'table',
    typeDeclarationFormat: 'table',
    logLevel: 'Warn',
    validation: { notExported: false },
  },
  [new TSConfigReader()],
)
const project = await app.convert()
if (project === undefined) process.exit(1)

const missing = Object.values(project.reflections).filter(isUndocumented).map(describe)
for (const member of new Set(missing)) console.log(member)
if (missing.length > 0) {
  console.error('These members have no TSDoc. Add a sentence that says more than the name does.')
  process.exit(1)
}
if (!process.argv.includes('--check')) {
  for (const module of project.children ?? []) {
    const file = module.sources?.[0]?.fullFileName.replace(root, '')
    module.name = imports.get(file) ?? module.name
  }
  // The sources are not in the package, so the pages do not point at them.
  for (const reflection of Object.values(project.reflections)) delete reflection.sources
  await app.generateOutputs(project)
  if (app.logger.hasErrors()) process.exit(1)
  console.error('Written to docs/api.')
}

/** Whether a member should have TSDoc and has none. The tag of a union, and the fields of an unnamed type, need none. */
function isUndocumented(member) {
  const kinds = ReflectionKind.ClassOrInterface | ReflectionKind.TypeAlias | ReflectionKind.FunctionOrMethod
  const needed = kinds | ReflectionKind.Property | ReflectionKind.Accessor | ReflectionKind.Variable
  if (!member.kindOf(needed) || member.inheritedFrom || member.parent?.kindOf(ReflectionKind.TypeLiteral)) return false
  if (member.type?.type === 'literal' || member.name.startsWith('[')) return false
  const signatures = [...(member.signatures ?? []), member.getSignature, member.setSignature].filter(Boolean)
  const inside = member.type?.type === 'reflection' ? (member.type.declaration.signatures ?? []) : []
  return ![member, ...signatures, ...inside].some(reflection => reflection.hasComment())
}

function describe(member) {
  const [source] = member.sources ?? member.signatures?.[0]?.sources ?? []
  return `${source?.fileName}:${source?.line} ${member.getFullName()}`
}
