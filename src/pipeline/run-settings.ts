import type { RunSettings } from '../store/internal.js'
import type { LiveOptions } from './run-options.js'

const DEFAULTS: RunSettings = {
  failureBudget: 0.1,
  stageBudgets: {},
  checkInterval: 1000,
  budgetWindow: undefined,
  completedFrom: 0.95,
  partialFrom: 0.5,
  maxUnfinished: 10_000,
  concurrency: {},
}

/** The settings of a new run. */
export function newSettings(options: LiveOptions): RunSettings {
  return { ...DEFAULTS, ...changedSettings(options) }
}

/** The settings that the options name. */
export function changedSettings({ thresholds = {}, ...options }: LiveOptions): Partial<RunSettings> {
  const { failureBudget, stageBudgets, checkInterval, budgetWindow, maxUnfinished, concurrency } = options
  const { completed: completedFrom, partial: partialFrom } = thresholds
  const named = {
    failureBudget,
    stageBudgets,
    checkInterval,
    budgetWindow,
    completedFrom,
    partialFrom,
    maxUnfinished,
    concurrency,
  }
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined))
}
