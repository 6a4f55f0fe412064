// Variables in configuration text: `${VAR}`, `${VAR:-default}`, and `$$` for a dollar.

/** What a process finds in its environment. */
export type Environment = Readonly<Record<string, string | undefined>>

/** A text with its variables filled in. */
export interface Expansion {
  text: string
  /** The text was one variable and nothing else, so it may stand for a number: `port: ${PORT}`. */
  whole: boolean
  /** What is wrong, naming variables but never a value. */
  problems: string[]
}

const token = /\$\$|\$\{([^}]*)\}?/g
/** How shells write a variable: alone, or behind a word as in `Bearer $TOKEN`. */
const bare = /^(?:\S+ )?\$([A-Za-z_]\w*)$/
const variable = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([^]*))?$/

/** Fills in the variables of a text; undefined when it has none, which is nearly always. */
export function expand(written: string, env: Environment): Expansion | undefined {
  if (!written.includes('$')) return undefined
  const [, unbraced] = bare.exec(written) ?? []
  if (unbraced !== undefined) {
    const problem = `$${unbraced} is no variable here: write \${${unbraced}}, or $$ for a dollar sign`
    return { text: written, whole: false, problems: [problem] }
  }
  if (!written.includes('$$') && !written.includes('${')) return undefined
  const problems: string[] = []
  let whole = false
  const text = written.replace(token, (found, inner: string | undefined) => {
    if (inner === undefined) return '$'
    const match = found.endsWith('}') ? variable.exec(inner) : null
    if (!match || match[2]?.includes('${')) {
      problems.push('"${" begins no variable here: write ${NAME} or ${NAME:-default}, or $$ for a dollar sign')
      return ''
    }
    const [, name = '', fallback] = match
    whole = found === written
    const value = Object.hasOwn(env, name) ? env[name] : undefined
    if (value !== undefined && (value !== '' || fallback === undefined)) return value
    if (fallback === undefined) {
      problems.push(`the environment variable ${name} is not set: set it, or give a default with \${${name}:-default}`)
    }
    return fallback ?? ''
  })
  return { text, whole, problems }
}

/**
 * A URL as it may be shown, also as the default of a variable: some upstreams take their key in the query, or before
 * the host. Anything else as it is.
 */
export function redactUrl(written: unknown): unknown {
  const url =
    typeof written === 'string' ? /^(.*?[a-z][a-z\d+.-]*:\/\/)([^/?#]*@)?([^?]*\?)?(.*)$/is.exec(written) : null
  if (!url) return written
  const [, scheme = '', user, address, query = ''] = url
  const host = `${scheme}${user === undefined ? '' : '[redacted]@'}`
  if (address === undefined) return `${host}${query}`
  // A brace behind the last value ends the variable that it is the default of.
  const end = scheme.startsWith('${') && query.endsWith('}') ? '}' : ''
  const shown = query
    .slice(0, query.length - end.length)
    .split('&')
    .map((part) => {
      const equals = part.indexOf('=') + 1
      return part.slice(0, equals) + redact(part.slice(equals))
    })
  return `${host}${address}${shown.join('&')}${end}`
}

/** A secret as it may be shown: variables by name, everything else gone. */
export function redact(written: unknown): string {
  const match = typeof written === 'string' ? /^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}$/.exec(written) : null
  if (!match) return '[redacted]'
  return match[2] === undefined ? (written as string) : `\${${match[1]}:-[redacted]}`
}
