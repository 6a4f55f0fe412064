// Templates of paths: which requests they fit, and what stands at their parameters.

/** A compiled template. */
export interface PathPattern {
  /** What a path begins with at least, up to the first parameter. */
  readonly prefix: string
  readonly expression: RegExp
  readonly names: readonly string[]
}

/** A parameter: one segment or a part of it, or with dots the rest of the path. */
const parameter = /\{(\w+)(\.\.\.)?\}/g

/** Whether a template has no parameters, so that it fits one path alone. */
export function isLiteral(template: string): boolean {
  return !template.includes('{')
}

/** Compiles a template; see `Operation.paths`. */
export function compilePath(template: string): PathPattern {
  const names: string[] = []
  const source = template.split(parameter).map((piece, index) => {
    // split() gives literal text, name and dots in turn.
    if (index % 3 === 0) return piece.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    if (index % 3 === 1) names.push(piece)
    return index % 3 === 1 ? '' : piece === undefined ? '([^/]+)' : '(.+)'
  })
  return { prefix: template.slice(0, template.indexOf('{')), expression: new RegExp(`^${source.join('')}$`), names }
}

/** The decoded parameters of a raw path that fits; undefined when it does not, or when its escapes are no UTF-8. */
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
