// For the other folders of this package. Users import from index.ts.

export { longestDelay } from './backoff.js'
export { checkOptions, type KnownOptions, mustBe, wrongOption } from './check-options.js'
export { type CommandFlags, commandArgs, commandLine, shellLine, shellWord } from './command-line.js'
export { allowance, refusal } from './decide.js'
export { namesOf } from './facts.js'
export { isObject } from './is-object.js'
export { compactJson, exactJson, exactValue, indentedJson, jsonTokens, membersOf, mergePatch } from './json-text.js'
export { isNetworkCode } from './known-errors.js'
export { DURATION } from './parse.js'
export { plainJson, problemOf } from './plain-json.js'
export { quoted, shortened, UNSAFE, unicodeEscape, visible } from './quoted.js'
