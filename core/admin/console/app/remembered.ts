// What a browser remembers of one reader's choices: colours, columns. Nothing of the gateway is kept there.

/** Reads a choice; undefined when none was made, or storage is closed to the page. */
export function recall(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(`sluice.${name}`) ?? 'null') ?? undefined
  } catch {
    return undefined
  }
}

/** Keeps a choice; undefined forgets it. */
export function remember(name: string, value: unknown): void {
  try {
    if (value === undefined) localStorage.removeItem(`sluice.${name}`)
    else localStorage.setItem(`sluice.${name}`, JSON.stringify(value))
  } catch {
    // Then it holds until the page is closed.
  }
}
