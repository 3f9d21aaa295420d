import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { runCommand } from './command.js'
import { pages } from './doc-blocks.js'
import { ROOT } from './subpaths.js'

/** The help of each command, by its words: `dlq redrive`. */
const helps = new Map<string, string>()
const runbooks = readdirSync(join(ROOT, 'ops/runbooks')).map(file => join('ops/runbooks', file))

beforeAll(async () => readHelp([]))

async function readHelp(words: readonly string[]): Promise<void> {
  const { out } = await runCommand([...words, '--help'])
  helps.set(words.join(' '), out)
  const [, commands = ''] = out.split('\nCommands:\n')
  const [list = ''] = commands.split('\n\n', 1)
  for (const [, names = ''] of list.matchAll(/^ {2}(\w[\w|-]*)/gm)) {
    for (const name of names.split('|')) if (name !== 'help') await readHelp([...words, name])
  }
}

/** The command lines on a page: in its blocks, after a prompt or not, and in its text. */
function commandsOn(page: string): string[] {
  const text = readFileSync(join(ROOT, page), 'utf8')
  const inText = text.replace(/^```[\s\S]*?^```$/gm, '').matchAll(/`(?:npx )?redrive ([^`]+)`/g)
  const inBlocks = text.matchAll(/^(?:\$ )?(?:npx )?redrive ([a-z].*)$/gm)
  return [...inText, ...inBlocks].map(([, command = '']) => command.replace(/\s+/g, ' '))
}

/** Finds a command or a flag of a command line that does not exist. */
function problemOf(line: string): string | undefined {
  const [command = ''] = line.split(/ [|#&]|…/, 1)
  // `dlq ls|show` stands for several commands: the first is looked at.
  const words = command
    .split(' ')
    .flatMap(word => word.split('|', 1))
    .filter(word => word !== '')
  let known = 0
  while (known < words.length && helps.has(words.slice(0, known + 1).join(' '))) known++
  const help = helps.get(words.slice(0, known).join(' ')) ?? ''
  // `worker` has commands, and takes a file.
  const isGroup = help.includes('\nCommands:\n') && !help.includes('\nArguments:\n')
  if (isGroup && /^[a-z]/.test(words[known] ?? '')) return `no such command: ${line}`
  const flags = words.filter(word => word.startsWith('--')).map(flag => flag.split('=', 1).join(''))
  const unknown = flags.find(flag => !new RegExp(`${flag}(?![\\w-])`).test(help))
  return unknown === undefined ? undefined : `no flag ${unknown}: ${line}`
}

it.each([...pages, ...runbooks])('the commands on %s exist, with their flags', page => {
  expect(commandsOn(page).map(problemOf).filter(Boolean)).toEqual([])
})
