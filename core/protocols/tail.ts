// Finds a member at the end of a JSON text of which the beginning is gone.

/** Longest object that is looked for. */
const longest = 4096

/** The last object that a member of this name has, parsed; undefined when there is none. */
export function lastObject(tail: string, name: string): unknown {
  const key = JSON.stringify(name)
  const opening = new RegExp(`^${key}\\s*:\\s*(?=\\{)`)
  for (let at = tail.lastIndexOf(key); at !== -1; at = at === 0 ? -1 : tail.lastIndexOf(key, at - 1)) {
    const open = opening.exec(tail.slice(at, at + key.length + 64))
    if (!open) continue
    const text = tail.slice(at + open[0].length)
    for (let end = text.indexOf('}'); end !== -1 && end < longest; end = text.indexOf('}', end + 1)) {
      try {
        return JSON.parse(text.slice(0, end + 1))
      } catch {
        // The brace closed an object inside.
      }
    }
  }
  return undefined
}
