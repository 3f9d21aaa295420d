/** Makes this process believe that it is another time. */
export function shiftClock(byMs: number): void {
  const Real = Date
  const now = () => Real.now() + byMs
  globalThis.Date = class extends Real {
    static override now = now

    constructor(...given: [] | [number | string | Date]) {
      super(given[0] ?? now())
    }
  } as DateConstructor
}
