// Counts and splits text in the simulator's own tokens, so that its usage can be checked by hand.

/** The longest run of ASCII letters, digits and underscores in a token. Every other character is a token by itself. */
const longestRun = 8

/**
 * The end of the token that begins at `from`: white space, then a run of up to eight ASCII word characters or one other
 * character. White space at the end of a text belongs to the last token.
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

/** The number of tokens in a text. White space alone has none. */
export function countTokens(text: string): number {
  const end = text.trimEnd().length
  let count = 0
  for (let at = 0; at < end; at = tokenEnd(text, at)) count++
  return count
}

/** The tokens of a text. Joined, they are the text again. */
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
