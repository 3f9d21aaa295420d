import { expect, it } from 'vitest'
import { quietEnvironment } from '../../../test/command.js'
import { consoleOf } from './console.js'
import { liveLine } from './live-line.js'

function lineOn(isTerminal: boolean) {
  const written: string[] = []
  const isTTY = { stdin: isTerminal, stdout: isTerminal, stderr: isTerminal }
  const environment = quietEnvironment({ stderr: { write: text => written.push(text) }, isTTY })
  return { line: liveLine(consoleOf(environment), environment), written }
}

it('writes over itself on a terminal, keeps messages above it, and leaves nothing behind', () => {
  const { line, written } = lineOn(true)
  line.show('1 of 2')
  line.show('2 of 2')
  line.say('The store answers again.')
  line.end()
  line.say('Done.')
  const clear = '\r\u001b[2K'
  const above = [clear, 'The store answers again.\n', '2 of 2']
  expect(written).toEqual(['1 of 2', clear, '2 of 2', ...above, clear, 'Done.\n'])
})

it('writes no control characters to a log', () => {
  const { line, written } = lineOn(false)
  line.show('1 of 2')
  line.say('Stopping.')
  line.end()
  expect(written).toEqual(['Stopping.\n'])
})
