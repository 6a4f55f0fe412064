// Parses the text of one file of a configuration into values, each with its place in the text.
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, Scalar } from 'yaml'
import { expand } from './variables.ts'
import type { Pair, YAMLError, YAMLMap } from 'yaml'
import type { Position } from './position.ts'
import type { Environment } from './variables.ts'

/** A value in a file. */
export interface Entry {
  value: unknown
  /** The file that has the value. */
  in: Lines
  /** The offset of the value, and of its key when it is in a map. */
  at: number
  key?: number
  /** The number of the value in the list of its own file, when lists of several files were joined. */
  index?: number
  /** The text before its variables were filled in. */
  written?: string
  /** Set when the text was a single variable, whose value may be meant as a number. */
  untyped?: true
  /** Set when a problem with the value was reported already. The value means nothing then. */
  spoiled?: true
  children?: Map<string, Entry>
}

/** Finds positions in one file. */
export class Lines {
  /** The path of the file, as places show it. */
  readonly file: string
  readonly counter = new LineCounter()

  constructor(file: string) {
    this.file = file
  }

  position(offset: number): Position {
    const { line, col } = this.counter.linePos(offset)
    return { file: this.file, line: Math.max(line, 1), column: Math.max(col, 1) }
  }
}

/** Reports a problem at an offset of the text. */
type Complain = (offset: number, message: string) => void

/**
 * How many values aliases may add to a configuration: enough for thousands of keys that share limits, but too few to
 * exhaust the memory.
 */
const mostAliased = 100_000
const deepest = 64

/** What the files of a configuration share while they are parsed. */
export interface Parsing {
  env: Environment
  complain(at: Position, message: string): void
  /** How many values aliases have added so far, in all files. Parsing adds to it. */
  aliased: number
}

/**
 * Parses YAML 1.2 (core schema, merge keys) and fills in variables. Undefined when the text is not valid YAML or not a
 * map. Anchors are known in their own file only.
 */
export function parseFile(text: string, file: string, parsing: Parsing): Entry | undefined {
  const lines = new Lines(file)
  const report: Complain = (offset, message) => parsing.complain(lines.position(offset), message)
  // Duplicate keys are found by the Reader. The parser's own check compares every key of a map with every other key.
  const document = parseDocument(text, {
    version: '1.2',
    schema: 'core',
    merge: true,
    uniqueKeys: false,
    prettyErrors: false,
    lineCounter: lines.counter
  })
  const errors = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])
  for (const error of errors) {
    report(error.pos[0], syntaxWords(error, text))
    if (!contained.has(error.code)) break
  }
  if (errors.length > 0) return undefined
  if (!isMap(document.contents)) {
    const empty = document.contents === null
    report(0, empty ? 'the file is empty' : 'the file must be a map of sections: listen, channels, models, …')
    return undefined
  }
  return new Reader(lines, parsing, report).read(document.contents)
}

/** The errors after which the parser can continue properly. What it reports after any other error is left out. */
const contained = new Set(['TAG_RESOLVE_FAILED', 'BAD_COLLECTION_TYPE', 'BAD_DQ_ESCAPE', 'BAD_SCALAR_START'])

/** What to add to the parser's own messages. */
const remedies: Partial<Record<YAMLError['code'], string>> = {
  BAD_SCALAR_START: ': put the text in quotes',
  MISSING_CHAR: ': check quotes, commas and colons here and in the line above'
}

/**
 * Says what is wrong with the syntax. The parser's own messages may quote the text, which may be a secret, so they are
 * replaced or shortened.
 */
function syntaxWords({ code, message, pos: [at] }: YAMLError, text: string): string {
  if (text.startsWith('${', at - 1)) return 'put ${…} in quotes: braces end a plain text inside of { } and [ ]'
  switch (code) {
    case 'RESOURCE_EXHAUSTION':
      return 'nested too deeply'
    case 'TAG_RESOLVE_FAILED':
    case 'BAD_COLLECTION_TYPE':
      return 'unknown tag: put a text that begins with ! in quotes'
    case 'BAD_DQ_ESCAPE':
      return 'no such escape: put a text with backslashes in single quotes'
    case 'MULTIPLE_DOCS':
      return 'a second document begins here: the file must be one'
    case 'BAD_DIRECTIVE':
      return 'directives (%) are not understood'
    case 'TAB_AS_INDENT':
      return 'tabs are not allowed as indentation: use spaces'
    case 'BLOCK_AS_IMPLICIT_KEY':
      return 'a text and a map cannot be one value: check the indentation, and put a text with a colon and a space in it in quotes'
    case 'BLOCK_IN_FLOW':
      return 'inside of { } and [ ] a comma must stand between two entries'
    case 'MULTILINE_IMPLICIT_KEY':
      return 'a key must stand on one line, with a colon and a space behind it'
    case 'BAD_INDENT':
      return message.startsWith('Flow')
        ? 'a { or [ above is not closed, or what stands in it is not indented'
        : 'what belongs to one map or list must begin in one column: check the indentation'
    default:
      return `${message.replace(/: .*$/s, '').replace(/^[A-Z]/, (first) => first.toLowerCase())}${remedies[code] ?? ''}`
  }
}

/** Whether a node is only digits. Inside of { }, the text `0,5` is parsed as two such nodes: a value, and a key. */
function isDigits(node: unknown): boolean {
  return isScalar(node) && node.type === Scalar.PLAIN && /^\d+$/.test(node.source ?? '')
}

/**
 * Reads the parsed nodes in the order of the file, so that an alias refers to the last anchor of that name above it.
 */
class Reader {
  readonly #lines: Lines
  readonly #parsing: Parsing
  readonly #complain: Complain
  readonly #anchors = new Map<string, unknown>()
  /** The maps and lists that are being read, innermost last. An alias to one of them would never end. */
  readonly #open = new Set<unknown>()
  #aliasDepth = 0

  constructor(lines: Lines, parsing: Parsing, complain: Complain) {
    this.#lines = lines
    this.#parsing = parsing
    this.#complain = complain
  }

  read(node: unknown, depth = 0, at = 0): Entry {
    if (isAlias(node)) return this.#alias(node.source, depth, node.range?.[0] ?? at)
    if (!isScalar(node) && !isMap(node) && !isSeq(node)) return { value: null, in: this.#lines, at }
    const start = node.range?.[0] ?? at
    if (depth > deepest) return this.#spoil(start, 'nested too deeply')
    if (this.#aliasDepth > 0 && ++this.#parsing.aliased > mostAliased) {
      const first = this.#parsing.aliased === mostAliased + 1
      return this.#spoil(start, first ? `aliases add more than ${mostAliased} values to the configuration` : undefined)
    }
    if (node.anchor !== undefined && this.#aliasDepth === 0) this.#anchors.set(node.anchor, node)
    if (isScalar(node)) return this.#scalar(node, start)
    this.#open.add(node)
    const entry = isMap(node) ? this.#map(node, depth, start) : this.#list(node.items, depth, start)
    this.#open.delete(node)
    return entry
  }

  #spoil(at: number, message: string | undefined): Entry {
    if (message !== undefined) this.#complain(at, message)
    return { value: '', in: this.#lines, at, spoiled: true }
  }

  #alias(name: string, depth: number, at: number): Entry {
    const target = this.#anchors.get(name)
    if (target === undefined)
      return this.#spoil(at, 'there is no such anchor above: put a text that begins with * in quotes')
    if (this.#open.has(target)) return this.#spoil(at, 'an alias inside of what it stands for')
    this.#aliasDepth++
    const entry = this.read(target, depth, at)
    this.#aliasDepth--
    return { ...entry, at }
  }

  #list(items: readonly unknown[], depth: number, at: number): Entry {
    const children = new Map(items.map((item, index) => [String(index), this.read(item, depth + 1, at)]))
    return { value: Array.from(children.values(), (child) => child.value), in: this.#lines, at, children }
  }

  #map(node: YAMLMap, depth: number, at: number): Entry {
    const children = new Map<string, Entry>()
    const merges: Entry[] = []
    for (const [index, { key, value }] of (node.items as Pair[]).entries()) {
      const keyAt = isScalar(key) ? (key.range?.[0] ?? at) : at
      if (value === null && isDigits(key) && isDigits(node.items[index - 1]?.value)) {
        this.#complain(keyAt, 'a comma parts two entries: write a decimal with a point, as in 0.5')
        continue
      }
      const plain = isScalar(key) && key.type === Scalar.PLAIN
      // The name is the text of the key, not its value: a model called 4.10 is not 4.1.
      const name = isScalar(key) ? (key.source ?? '') : ''
      const child = this.read(value, depth + 1, keyAt)
      child.key = keyAt
      if (plain && name === '<<') merges.push(child)
      else if (!isScalar(key) || (plain && name === '')) this.#complain(keyAt, 'a key must be plain text')
      else if (children.has(name)) {
        const { line } = this.#lines.position(children.get(name)!.key!)
        this.#complain(keyAt, `the key "${name.slice(0, 64)}" stands on line ${line} already`)
      } else children.set(name, child)
    }
    for (const merge of merges) this.#merge(merge, children)
    const object: Record<string, unknown> = Object.create(null)
    for (const [name, child] of children) object[name] = child.value
    return { value: object, in: this.#lines, at, children }
  }

  /**
   * Merges `<<: *map` or a list of maps. It adds only missing keys, so the map's own keys win, and earlier maps of the
   * list win over later ones.
   */
  #merge(from: Entry, into: Map<string, Entry>): void {
    const maps = Array.isArray(from.value) ? [...from.children!.values()] : [from]
    for (const map of maps) {
      if (map.spoiled) continue
      if (Array.isArray(map.value) || !map.children) this.#complain(map.at, '<< takes a map, or a list of maps')
      else for (const [name, child] of map.children) if (!into.has(name)) into.set(name, child)
    }
  }

  #scalar({ value, source = '' }: Scalar, at: number): Entry {
    if (typeof value === 'number') return this.#number(value, source, at)
    const expansion = typeof value === 'string' ? expand(value, this.#parsing.env) : undefined
    if (!expansion) return { value, in: this.#lines, at }
    for (const problem of expansion.problems) this.#complain(at, problem)
    const entry: Entry = { value: expansion.text, in: this.#lines, at, written: value as string }
    if (expansion.whole) entry.untyped = true
    if (expansion.problems.length > 0) entry.spoiled = true
    return entry
  }

  /** Reads a number. A double has 15 exact digits: more could change an amount of money silently. */
  #number(value: number, text: string, at: number): Entry {
    const digits = text
      .replace(/e.*$/i, '')
      .replace(/\D/g, '')
      .replace(/^0+|0+$/g, '')
    const exact = /^0[ox]/.test(text) ? Number.isSafeInteger(value) : Number.isFinite(value) && digits.length <= 15
    if (exact) return { value, in: this.#lines, at }
    return this.#spoil(at, 'a number that cannot be held exactly: put it in quotes')
  }
}
