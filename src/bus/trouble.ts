/** Called with a problem from which the bus recovers by itself, for logging. */
export type OnTrouble = (trouble: Error) => void

/** Wraps a callback so that an error it throws never reaches the bus. */
export function harmless(onTrouble: OnTrouble = () => {}): OnTrouble {
  return trouble => {
    try {
      onTrouble(trouble)
    } catch {
      // There is nowhere left to report it.
    }
  }
}
