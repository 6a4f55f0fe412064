// Completion for gateway.yaml from its JSON Schema: which keys or values may stand where the cursor is.
import { shownValue } from '../../parts/schema.ts'

/** A JSON Schema (draft-07), as far as completion reads it. */
export interface Node {
  readonly title?: string
  readonly description?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly properties?: Readonly<Record<string, Node>>
  readonly additionalProperties?: boolean | Node
  readonly items?: Node
  readonly anyOf?: readonly Node[]
  readonly oneOf?: readonly Node[]
  readonly then?: Node
  readonly else?: Node
}

/** Something that may be written: `from` is where in the text it begins, up to the cursor. */
export interface Offer {
  readonly text: string
  readonly label: string
  readonly about: string
  readonly from: number
}

/** Where a cursor stands: the keys that lead there, `[]` for an item of a list, and what is being written. */
interface Spot {
  readonly path: readonly string[]
  readonly kind: 'key' | 'value'
  readonly written: string
  /** Keys that stand beside it already. */
  readonly beside: ReadonlySet<string>
}

const most = 200

/** What may be written at an offset of the text; empty in comments, and where any text may stand. */
export function offersAt(text: string, offset: number, root: Node): Offer[] {
  const spot = spotAt(text, offset)
  if (!spot) return []
  const schemas = spot.path.reduce<readonly Node[]>((nodes, part) => nodes.flatMap((node) => step(node, part)), [root])
  const from = offset - spot.written.length
  const wanted = spot.written.toLowerCase()
  const found = new Map<string, Offer>()
  const offer = (label: string, text: string, about = ''): void => {
    if (label.toLowerCase().startsWith(wanted) && !found.has(label)) found.set(label, { text, label, about, from })
  }
  for (const node of schemas.flatMap(alternatives)) {
    if (spot.kind === 'key') {
      for (const [name, inner] of Object.entries(node.properties ?? {}))
        if (!spot.beside.has(name)) offer(name, `${name}:${isNested(inner) ? '' : ' '}`, inner.description)
      // An item of a list may be a word alone, as plugins of the chain are.
      if (spot.path.at(-1) === '[]')
        for (const word of node.enum ?? []) offer(shownValue(word), shownValue(word), node.description)
    } else {
      for (const word of node.enum ?? []) offer(shownValue(word), shownValue(word), node.description)
      if (node.type === 'boolean') for (const word of ['true', 'false']) offer(word, word, node.description)
      if (node.default !== undefined && typeof node.default !== 'object')
        offer(shownValue(node.default), shownValue(node.default), 'The default.')
    }
  }
  return [...found.values()].slice(0, most)
}

function isNested(schema: Node): boolean {
  return alternatives(schema).every(
    (node) => node.type === 'object' || node.type === 'array' || node.properties !== undefined
  )
}

function alternatives(node: Node): Node[] {
  const others = [...(node.anyOf ?? []), ...(node.oneOf ?? []), node.then, node.else].filter((one) => one !== undefined)
  return others.length === 0 ? [node] : [node, ...others.flatMap(alternatives)]
}

function step(node: Node, part: string): Node[] {
  return alternatives(node).flatMap(({ properties, additionalProperties, items }) => {
    if (part === '[]') return items ? [items] : []
    const own = properties && Object.hasOwn(properties, part) ? properties[part] : undefined
    if (own) return [own]
    return typeof additionalProperties === 'object' ? [additionalProperties] : []
  })
}

/** A key or the dash of a list, by the column where it stands. */
interface Mark {
  readonly column: number
  /** `[]` for a dash. */
  readonly name: string
}

const keyed = /^("[^"]*"|'[^']*'|[^\s:#{}[\],"'][^:#{}[\],]*?)\s*:(?:\s|$)/

/** The marks of a line in block style, and where its value begins. */
function marksOf(line: string): { marks: Mark[]; value: number } {
  const marks: Mark[] = []
  let column = /^ */.exec(line)![0].length
  for (;;) {
    const rest = line.slice(column)
    if (rest.startsWith('- ') || rest === '-') {
      marks.push({ column, name: '[]' })
      column += 1 + /^ */.exec(rest.slice(1))![0].length
      continue
    }
    const key = keyed.exec(rest)
    if (!key) return { marks, value: column }
    marks.push({ column, name: key[1]!.replace(/^["']|["']$/g, '') })
    return { marks, value: column + key[0].length }
  }
}

function spotAt(text: string, offset: number): Spot | undefined {
  const lines = text.slice(0, offset).split('\n')
  const line = lines.pop()!
  if (/(^|\s)#/.test(line)) return undefined
  const { marks, value } = marksOf(line)
  const flow = inFlow(line.slice(value))
  const own = marks.at(-1)
  const hasKey = own !== undefined && own.name !== '[]'
  const written = flow ? flow.written : line.slice(value)
  if (/["'\s]/.test(written)) return undefined
  const column = hasKey ? own.column : value
  const above = parentsOf(lines, marks[0]?.column ?? column, marks[0]?.name === '[]')
  const path = [...above, ...marks.map(({ name }) => name), ...(flow?.path ?? [])]
  if (flow) return { path, kind: flow.kind, written, beside: flow.beside }
  if (hasKey) return { path, kind: 'value', written, beside: new Set() }
  return { path, kind: 'key', written, beside: besideOf(text, offset, column, own !== undefined) }
}

/** The keys and dashes around a line, outermost first, by the indentation of the lines above it. */
function parentsOf(lines: readonly string[], column: number, isItem: boolean): string[] {
  const path: string[] = []
  let [limit, item] = [column, isItem]
  for (let index = lines.length - 1; index >= 0 && (limit > 0 || item); index--) {
    const line = lines[index]!
    if (/^\s*(#|$)/.test(line)) continue
    for (const { column: at, name } of marksOf(line).marks.toReversed()) {
      // The key of a list may stand in the column of its dashes.
      if (name === '[]' ? at < limit : at < limit || (item && at === limit)) {
        path.unshift(name)
        limit = at
        item = name === '[]'
      }
    }
  }
  return path
}

/**
 * The keys of the same map in block style: those of the same column around the cursor. `begins`: the map is an item
 * that begins on the line of the cursor.
 */
function besideOf(text: string, offset: number, column: number, begins: boolean): Set<string> {
  const keys = new Set<string>()
  const take = (lines: readonly string[], down: boolean): void => {
    for (const line of lines) {
      if (/^\s*(#|$)/.test(line)) continue
      const { marks } = marksOf(line)
      const isItem = marks.some((mark) => mark.name === '[]' && mark.column < column)
      const outside = /^ */.exec(line)![0].length < column
      // Going down, a dash begins the next item; going up, it is the one that this item begins with.
      if (outside && (down || !isItem)) return
      const found = marks.find((mark) => mark.column === column && mark.name !== '[]')
      if (found) keys.add(found.name)
      if (outside) return
    }
  }
  if (!begins) take(text.slice(0, offset).split('\n').slice(0, -1).toReversed(), false)
  take(text.slice(offset).split('\n').slice(1), true)
  return keys
}

/** What is open in flow style, `{ a: 1, b: [`, within one line; undefined outside of it. */
function inFlow(
  value: string
): { path: string[]; kind: 'key' | 'value'; written: string; beside: ReadonlySet<string> } | undefined {
  const open: { list: boolean; key: string | undefined; keys: Set<string> }[] = []
  let word = ''
  let quote = ''
  for (const sign of value) {
    if (quote !== '') {
      if (sign === quote) quote = ''
      else word += sign
      continue
    }
    const top = open.at(-1)
    if (sign === '"' || sign === "'") quote = sign
    else if (sign === '{' || sign === '[') {
      open.push({ list: sign === '[', key: undefined, keys: new Set() })
      word = ''
    } else if (sign === '}' || sign === ']') {
      open.pop()
      word = ''
    } else if (sign === ':' && top && !top.list && top.key === undefined) {
      top.key = word.trim()
      top.keys.add(top.key)
      word = ''
    } else if (sign === ',' && top) {
      top.key = undefined
      word = ''
    } else word += sign
  }
  const top = open.at(-1)
  if (!top || quote !== '') return undefined
  const path = open.flatMap(({ list, key }) => (list ? ['[]'] : key === undefined ? [] : [key]))
  const kind = top.list ? 'key' : top.key === undefined ? 'key' : 'value'
  return { path, kind, written: word.trimStart(), beside: top.keys }
}
