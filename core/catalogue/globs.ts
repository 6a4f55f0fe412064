// Globs in the configuration: decides which names they match.

/** Whether a name matches. */
export type Matches = (name: string) => boolean

/**
 * Makes a function that tells whether a name matches any of the globs. `*` stands for any run of characters, everything
 * else for itself. It uses no regular expression, so that its time is linear in the name, which may come from a client,
 * however many stars there are.
 */
export function compileGlobs(globs: readonly string[]): Matches {
  if (globs.includes('*')) return () => true
  const exact = new Set(globs.filter((glob) => !glob.includes('*')))
  const patterns = globs.filter((glob) => glob.includes('*')).map((glob) => glob.split('*'))
  return (name) => exact.has(name) || patterns.some((pieces) => matchesPieces(pieces, name))
}

/** Whether the pieces between the stars occur in the name in order, the first at its start and the last at its end. */
function matchesPieces(pieces: readonly string[], name: string): boolean {
  const first = pieces[0]!
  const last = pieces.at(-1)!
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false
  let from = first.length
  const to = name.length - last.length
  for (const piece of pieces.slice(1, -1)) {
    const found = name.indexOf(piece, from)
    if (found < 0 || found + piece.length > to) return false
    from = found + piece.length
  }
  return true
}
