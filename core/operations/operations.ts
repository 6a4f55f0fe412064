// Finds the operation of a request by its method, path, headers and query.
import type { Match, OperationFinder, ServedOperation } from '../contract/served.ts'
import { compilePath, isLiteral, matchPath } from './paths.ts'
import type { PathPattern } from './paths.ts'

type Headers = Parameters<OperationFinder['find']>[2]

/** All operations of one path template, and their methods. */
interface Room {
  operations: ServedOperation[]
  allow: string[]
}

const noParameters: Readonly<Record<string, string>> = Object.freeze({})

/** Finds the operation of a request. One is made for the whole process, from all operations. */
export class Operations implements OperationFinder {
  readonly all: readonly ServedOperation[]
  readonly #literal = new Map<string, Room>()
  /** Longest prefix first, so that a more specific template is tried before a general one. */
  readonly #patterns: { pattern: PathPattern; room: Room }[] = []

  /** @throws Error when two operations have the same name */
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
   * Called once per request. The result has no operation when the path is known but the method is not. Undefined: no
   * template fits the path.
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
      // Another template may fit as well: a path of `/v1/models/{model...}:countTokens` also fits
      // `/v1/models/{model...}`.
      other = { operation: undefined, allow: [...(other?.allow ?? []), ...room.allow], parameters }
    }
    return other
  }

  /**
   * The operation that shares the most segments with an unknown path. On a tie, one whose `when` accepts the request
   * wins.
   */
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

/** How many segments of an unknown path are compared. No template has more. */
const mostSegments = 10

/** How many leading segments a template and a path share. */
function sharedSegments(template: string, segments: readonly string[]): number {
  const own = template.split('/')
  const other = own.findIndex((segment, index) => !fits(segment, segments[index]))
  return other === -1 ? own.length : other
}

function fits(template: string, segment = ''): boolean {
  return isLiteral(template) ? template === segment : segment.endsWith(template.slice(template.lastIndexOf('}') + 1))
}

/** A rank by how specific a template is: the length of its prefix first, then the length of the rest. */
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
