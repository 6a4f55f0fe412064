// Counts and cuts text in the simulator's own tokens, so that its usage numbers can be checked by hand.

/** Letters, digits and underscores of ASCII run together, up to this many; every other character stands for itself. */
const longestRun = 8

/**
 * Where the token that begins at `from` ends: white space, then a run of at most eight ASCII word characters or one
 * other character. White space at the very end of a text belongs to no token and follows the last one.
 */
function tokenEnd(text: string, from: number): number {
  let at = from
  while (at < text.length && isSpace(text.charCodeAt(at))) at++
  if (at === text.length) return at
  const start = at
  while (at < text.length && at - start < longestRun && isWord(text.charCodeAt(at))) at++
  if (at === start) at += text.codePointAt(at)! > 0xffff ? 2 : 1
  return at
}

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d)
}

function isWord(code: number): boolean {
  return (
    (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a) || (code >= 0x30 && code <= 0x39) || code === 0x5f
  )
}

/** The number of tokens of a text; white space alone has none. */
export function countTokens(text: string): number {
  const end = text.trimEnd().length
  let count = 0
  for (let at = 0; at < end; at = tokenEnd(text, at)) count++
  return count
}

/** The text cut into its tokens; joined again they are the text. */
export function splitTokens(text: string): string[] {
  const tokens: string[] = []
  const end = text.trimEnd().length
  for (let at = 0; at < end;) {
    const next = tokenEnd(text, at)
    tokens.push(text.slice(at, next))
    at = next
  }
  if (end < text.length) tokens.push((tokens.pop() ?? '') + text.slice(end))
  return tokens
}
