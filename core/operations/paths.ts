// Compiles path templates, and matches request paths against them.

/** A compiled path template. */
export interface PathPattern {
  /** The literal text before the first parameter. */
  readonly prefix: string
  readonly expression: RegExp
  readonly names: readonly string[]
}

/** A parameter: one segment or a part of one, or with dots the rest of the path. */
const parameter = /\{(\w+)(\.\.\.)?\}/g

/** Whether a template has no parameters, so that only one path fits it. */
export function isLiteral(template: string): boolean {
  return !template.includes('{')
}

/** Compiles a template; see `Operation.paths`. */
export function compilePath(template: string): PathPattern {
  const names: string[] = []
  const source = template.split(parameter).map((piece, index) => {
    // split() yields literal text, a parameter's name and its dots in turn.
    if (index % 3 === 0) return piece.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    if (index % 3 === 1) names.push(piece)
    return index % 3 === 1 ? '' : piece === undefined ? '([^/]+)' : '(.+)'
  })
  return { prefix: template.slice(0, template.indexOf('{')), expression: new RegExp(`^${source.join('')}$`), names }
}

/**
 * The parameters of a raw path, percent-decoded. Undefined when the path does not fit, or when an escape is not UTF-8.
 */
export function matchPath(
  { prefix, expression, names }: PathPattern,
  path: string
): Record<string, string> | undefined {
  if (!path.startsWith(prefix)) return undefined
  const found = expression.exec(path)
  if (!found) return undefined
  const parameters: Record<string, string> = {}
  try {
    for (const [index, name] of names.entries()) parameters[name] = decodeURIComponent(found[index + 1]!)
  } catch {
    return undefined
  }
  return parameters
}
