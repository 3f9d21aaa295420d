import { regroup } from '../../src/engine/internal.js'
import { NO_RULES, PatternRules } from '../../src/fingerprint/internal.js'
import { openStore } from './open-store.js'

/** Regroups a store by a rule, then by none, and so on, until it is killed. */
const { url, pattern } = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '{}')
const store = await openStore(url)
const { signal } = new AbortController()
const rules = new PatternRules([{ pattern }])
console.log('ready')
for (;;) for (const next of [rules, NO_RULES]) await regroup(store, next, signal)
