// The table of operations as requests are matched against it.
import type { Match, OperationFinder, ServedOperation } from '../contract/served.ts'
import { compilePath, isLiteral, matchPath } from './paths.ts'
import type { PathPattern } from './paths.ts'

type Headers = Parameters<OperationFinder['find']>[2]

/** What leads to the same place: the operations of one template. */
interface Room {
  operations: ServedOperation[]
  allow: string[]
}

const noParameters: Readonly<Record<string, string>> = Object.freeze({})

/** Finds the operation of a request. Made once, of all operations there are. */
export class Operations implements OperationFinder {
  readonly all: readonly ServedOperation[]
  readonly #literal = new Map<string, Room>()
  /** Longest prefix first, so that the more particular template is tried before the others. */
  readonly #patterns: { pattern: PathPattern; room: Room }[] = []

  /** @throws Error when two operations have one name */
  constructor(all: readonly ServedOperation[]) {
    this.all = all
    const names = new Set<string>()
    const rooms = new Map<string, Room>()
    for (const operation of all) {
      if (names.has(operation.name)) throw new Error(`the operation ${operation.name} is declared twice`)
      names.add(operation.name)
      for (const path of operation.paths) {
        let room = rooms.get(path)
        if (!room) {
          rooms.set(path, (room = { operations: [], allow: [] }))
          if (isLiteral(path)) this.#literal.set(path, room)
          else this.#patterns.push({ pattern: compilePath(path), room })
        }
        room.operations.push(operation)
        if (!room.allow.includes(operation.method)) room.allow.push(operation.method)
      }
    }
    this.#patterns.sort((a, b) => particular(b.pattern) - particular(a.pattern))
  }

  /**
   * Once per request: everything later refers to the operation and never looks at the path again. Undefined: nothing is
   * there.
   */
  find(method: string, path: string, headers: Headers, query: string): Match | undefined {
    const room = this.#literal.get(path)
    if (room)
      return { operation: chosen(room, method, headers, query, path), allow: room.allow, parameters: noParameters }
    let other: Match | undefined
    for (const { pattern, room } of this.#patterns) {
      const parameters = matchPath(pattern, path)
      if (!parameters) continue
      const operation = chosen(room, method, headers, query, path)
      if (operation) return { operation, allow: room.allow, parameters }
      // Another template may fit as well: `/v1/models/{model...}` fits what `/v1/models/{model...}:countTokens` does.
      other = { operation: undefined, allow: [...(other?.allow ?? []), ...room.allow], parameters }
    }
    return other
  }

  /** The one that shares the most segments with the path; of several the one whose `when` tells it from others. */
  nearest(path: string, headers: Headers, query: string): ServedOperation {
    const segments = path.split('/', mostSegments)
    let [best, most] = [this.all[0]!, -1]
    for (const operation of this.all) {
      if (operation.when && !operation.when(headers, query, path)) continue
      const shared = Math.max(...operation.paths.map((template) => sharedSegments(template, segments)))
      const likeness = shared + (operation.when ? 0.5 : 0)
      if (likeness > most) [best, most] = [operation, likeness]
    }
    return best
  }
}

/** Of a path without an operation that are compared: no template is longer. */
const mostSegments = 10

/** How many segments a template and a path have in common from the beginning. */
function sharedSegments(template: string, segments: readonly string[]): number {
  const own = template.split('/')
  const other = own.findIndex((segment, index) => !fits(segment, segments[index]))
  return other === -1 ? own.length : other
}

function fits(template: string, segment = ''): boolean {
  return isLiteral(template) ? template === segment : segment.endsWith(template.slice(template.lastIndexOf('}') + 1))
}

/** How much of a path a template says. */
function particular({ prefix, expression }: PathPattern): number {
  return prefix.length * 1000 + expression.source.length
}

function chosen(
  { operations }: Room,
  method: string,
  headers: Headers,
  query: string,
  path: string
): ServedOperation | undefined {
  for (const operation of operations) {
    if (operation.method === method && (!operation.when || operation.when(headers, query, path))) return operation
  }
  return undefined
}
