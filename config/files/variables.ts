// Fills in variables in configuration text: `${VAR}`, `${VAR:-default}`, and `$$` for a dollar sign.

/** The environment variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>

/** A text whose variables were filled in. */
export interface Expansion {
  text: string
  /** Whether the text was a single variable, so that its value may be meant as a number: `port: ${PORT}`. */
  whole: boolean
  /** What is wrong. Problems name variables, but never show a value. */
  problems: string[]
}

const token = /\$\$|\$\{([^}]*)\}?/g
/** A variable in the form of shells: alone, or behind a word as in `Bearer $TOKEN`. */
const bare = /^(?:\S+ )?\$([A-Za-z_]\w*)$/
const variable = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([^]*))?$/

/** Fills in the variables of a text; undefined when it has none, which is the usual case. */
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
 * Returns a URL in a form that may be shown, also when it is the default of a variable. The query and the part before
 * the host are redacted, because some upstreams take their key there. Anything but a URL is returned as it is.
 */
export function redactUrl(written: unknown): unknown {
  const url =
    typeof written === 'string' ? /^(.*?[a-z][a-z\d+.-]*:\/\/)([^/?#]*@)?([^?]*\?)?(.*)$/is.exec(written) : null
  if (!url) return written
  const [, scheme = '', user, address, query = ''] = url
  const host = `${scheme}${user === undefined ? '' : '[redacted]@'}`
  if (address === undefined) return `${host}${query}`
  // A brace at the end belongs to the variable whose default the URL is.
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

/** Returns a secret in a form that may be shown: a variable keeps its name, everything else is redacted. */
export function redact(written: unknown): string {
  const match = typeof written === 'string' ? /^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}$/.exec(written) : null
  if (!match) return '[redacted]'
  return match[2] === undefined ? (written as string) : `\${${match[1]}:-[redacted]}`
}
