import { join } from 'node:path'
import ts from 'typescript'
import { expect, it } from 'vitest'
import { ROOT } from './subpaths.js'

it('options may be given as undefined by users who compile with `exactOptionalPropertyTypes`', () => {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT)
  const file = join(ROOT, 'test/types/exact-optional.ts')
  const program = ts.createProgram([file], { ...options, exactOptionalPropertyTypes: true })
  const problems = program
    .getSemanticDiagnostics(program.getSourceFile(file))
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))
  expect(problems).toEqual([])
})
