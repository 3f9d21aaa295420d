import type { Work } from '../telemetry/index.js'

/** Beyond this many kinds and categories, all others share one: a kind that is made up at run time must not flood Prometheus. */
const MAX_LABEL_SETS = 200

/** The labels of a metric about work. */
export interface WorkLabels {
  readonly kind: string
  readonly category: string
}

const OTHER: WorkLabels = { kind: 'other', category: 'other' }

/** The kinds and categories that metrics have seen, up to a number. */
export class LabelSets {
  readonly #known = new Map<string, WorkLabels>()

  /** The labels of a kind and category. Calls `onNew` the first time. */
  of(kind: string, category: string, onNew?: (labels: WorkLabels) => void): WorkLabels {
    // Not JSON, which would cost more than the metric itself.
    const name = `${kind}\0${category}`
    const known = this.#known.get(name)
    if (known !== undefined) return known
    if (this.#known.size >= MAX_LABEL_SETS) return OTHER
    const labels = { kind, category }
    this.#known.set(name, labels)
    onNew?.(labels)
    return labels
  }
}

/**
 * The kind and category that work is counted under: those of its lane, as `redrive task ls` shows them. A call is of the
 * kind `call`, whatever its name, which may hold an id. A step is of the kind `step:` and that of its task. Documents and runs
 * are counted elsewhere.
 */
export function kindOf(work: Work): readonly [kind: string, category: string] | undefined {
  switch (work.kind) {
    case 'call':
      return ['call', work.category ?? '']
    case 'task':
      return [work.name, work.category ?? '']
    case 'event':
      return [`event:${work.queue ?? work.name}`, '']
    case 'step': {
      const { name, step = '' } = work
      // Steps of a loop are one: 'page:7'.
      return [`step:${name.slice(0, -step.length - 1)}`, step.replace(/:\d+$/, '')]
    }
    case 'item':
      return [`pipeline:${work.pipeline ?? work.name}`, work.stage ?? '']
    case 'run':
    case 'document':
    case 'schedule':
    case 'worker':
      return undefined
  }
}
