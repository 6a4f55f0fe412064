// Reads the parameters of a header line (RFC 9110 §5.6.6), and refuses lines that readers could understand differently.

export const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const parameter = new RegExp(`[\\t ]*;[\\t ]*(${token})=(?:"((?:[^"\\\\]|\\\\.)*)"|(${token}))[\\t ]*`, 'y')

/**
 * The parameters in a text, in Latin-1 and with their backslashes; names are in small letters. Undefined when it is
 * malformed, when a name occurs twice, or when a name has a star: such a parameter continues or encodes another (RFC
 * 2231), and not every reader knows that. `starred`: the one name with a star that is allowed.
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
