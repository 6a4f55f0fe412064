// Names that some readers take for others: what is read under such a name by them is not what was looked at here.

/** A name, and the known one that it would be taken for. */
export interface Lookalike {
  readonly name: string
  readonly taken: string
}

/** The first of these names that is not known, and may be taken for one that is. */
export function lookalike(names: readonly string[], isKnown: (name: string) => boolean): Lookalike | undefined {
  for (const name of names) {
    const taken = folded(name)
    if (taken !== name && isKnown(taken)) return { name, taken }
  }
  return undefined
}

/**
 * What somebody may read for it who does not care for capitals, in any alphabet that has them, or stops at a zero byte.
 */
export function folded(name: string): string {
  // Up and down again, as there are letters (ſ, K) that have a Latin one on one of the two ways alone; İ leaves its dot
  // behind.
  return name.split('\0', 1)[0]!.toUpperCase().toLowerCase().replaceAll('\u0307', '')
}
