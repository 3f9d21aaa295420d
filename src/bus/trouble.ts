/** Is told of trouble that is being dealt with, so that somebody may look at it. */
export type OnTrouble = (trouble: Error) => void

/** One that throws is the trouble of whoever wrote it, never that of the bus. */
export function harmless(onTrouble: OnTrouble = () => {}): OnTrouble {
  return trouble => {
    try {
      onTrouble(trouble)
    } catch {
      // Nobody is left to be told.
    }
  }
}
