// Parameters of a header line (RFC 9110 §5.6.6), where every reader has to find the same ones.

export const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const parameter = new RegExp(`[\\t ]*;[\\t ]*(${token})=(?:"((?:[^"\\\\]|\\\\.)*)"|(${token}))[\\t ]*`, 'y')

/**
 * What stands behind the first word of a line, in Latin1 and with its backslashes; names are in small letters.
 * Undefined when it is malformed, or has a name twice or one with a star, which continues or encodes another (RFC 2231)
 * and not for every reader. `starred`: the one of these names that may stand there.
 */
export function readParameters(text: string, starred?: string): Map<string, string> | undefined {
  const found = new Map<string, string>()
  for (let at = 0; at < text.length; at = parameter.lastIndex) {
    parameter.lastIndex = at
    const [all, key, quoted, plain] = parameter.exec(text) ?? []
    const name = key?.toLowerCase() ?? ''
    if (all === undefined || found.has(name) || (name.includes('*') && name !== starred)) return undefined
    found.set(name, quoted ?? plain!)
  }
  return found
}
