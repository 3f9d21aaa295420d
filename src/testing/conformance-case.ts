/** A named piece of behaviour. `run` rejects if the implementation does not show it. */
export interface ConformanceCase {
  /** A sentence about behaviour. */
  readonly name: string
  /** Rejects if the behaviour is not there. */
  run(): Promise<void>
}

/** Turns themes of named behaviours into cases. `check` opens what a behaviour needs, runs it and cleans up. */
export function casesOf<Behaviour>(
  themes: Readonly<Record<string, Readonly<Record<string, Behaviour>>>>,
  check: (behaviour: Behaviour) => Promise<void>,
): readonly ConformanceCase[] {
  return Object.entries(themes).flatMap(([theme, behaviours]) =>
    Object.entries(behaviours).map(([name, behaviour]) => ({
      name: `${theme}: ${name}`,
      run: () => check(behaviour),
    })),
  )
}
