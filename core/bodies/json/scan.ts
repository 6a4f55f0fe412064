// Finds the members of a JSON object in its bytes and checks all of it, by way of a module in WebAssembly.
import { named, nameAt } from './names.ts'
import { code } from './scanner-code.ts'

/** A member's place in the bytes. */
export interface Member {
  /** Of the opening quote of its key. */
  keyStart: number
  valueStart: number
  /** Exclusive. */
  valueEnd: number
  /** The value is a string, and what stands between its quotes is what it says; also true of few that are long. */
  plain: boolean
}

/** What a scan found. */
export interface Scan {
  members: Map<string, Member>
  /** Keys with other characters than small letters, digits, `_`, `-` and `.`; nearly always none. */
  oddKeys: readonly string[]
  /** Of the opening brace. */
  start: number
  /** No byte is beyond ASCII. */
  isAscii: boolean
}

/** Why bytes are no usable JSON object; the message names the byte offset. */
export class LensError extends Error {
  override readonly name = 'LensError'
}

/** Containers inside containers; deeper objects are refused (stacks of parsers behind us are finite). */
export const maxDepth = 512
/** Members of one object: far more than any protocol has, and so few that finding them costs nothing. */
export const maxMembers = 1000
/** Of a key as it is written, in bytes. */
export const maxKeyBytes = 1024

/** The module's memory as assembly/scanner.ts lays it out, in bytes. */
const stack = 32
const table = 1024
const input = 16 * 1024
const stretch = 64 * 1024
/** Where what its users have of it begins; a page behind that is nobody's. */
const spare = 128 * 1024
const page = 64 * 1024
const words = { member: 5, plainKey: 1, plainValue: 2 }
const status = { done: 0, more: 1, full: 2 }

const reasons = [
  'a JSON object must begin with {',
  'expected a key in double quotes',
  'expected : after a key',
  'expected a value',
  'expected , or } after a value',
  'expected , or }',
  'expected , or ]',
  'expected nothing after the object',
  `nested deeper than ${maxDepth}`,
  'a number has no digits after its point',
  'a number has no digits in its exponent',
  'a string does not end',
  'a string has an invalid escape',
  'a string has a control character in it, which must be escaped'
]

/** What the module keeps between two calls. */
interface Global {
  value: number
}

interface Scanner {
  memory: { buffer: ArrayBuffer }
  depth: Global
  begin(address: number, length: number, last: number): number
  proceed(address: number, length: number, last: number): number
  resume(last: number): number
}

/** Part of Node, and not of the types that come with it. */
declare const WebAssembly: {
  Global: new () => Global
  Module: new (code: Uint8Array) => object
  Instance: new (module: object) => { exports: Scanner }
}

/** One for all: of several scans under way each puts its own state back. */
const scanner = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(code, 'base64'))).exports
const globals = Object.values(scanner).filter((value): value is Global => value instanceof WebAssembly.Global)
const memory = new Uint8Array(scanner.memory.buffer)
const results = new Int32Array(scanner.memory.buffer, 0, 5)
const found = new Int32Array(scanner.memory.buffer, table)
/** How many scans there have been, and whose state is the module's. */
let scans = 0
let current = 0

/** Memory for whoever wants it: what lies here is scanned where it is. Nothing is written to it. */
export const scannable = Buffer.from(scanner.memory.buffer, spare, memory.length - spare - page)

/**
 * @throws LensError when the bytes are not exactly one JSON object with every key once, white space around it allowed
 */
export function scan(bytes: Buffer): Scan {
  return new Scanning(bytes).advance(Infinity)!
}

/** A scan that may be done in several parts, with others between them. */
export class Scanning {
  readonly #number = ++scans
  readonly #bytes: Buffer
  readonly #inPlace: boolean
  readonly #members = new Map<string, Member>()
  #oddKeys: string[] | undefined
  /** How far it has come. */
  #at = 0
  /** While another scan has the module. */
  #kept: State | undefined

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#inPlace = bytes.buffer === scanner.memory.buffer
  }

  /**
   * Scans on until the time has come (`performance.now()`), at least for a moment; all of it when that is infinite.
   * Undefined when it is not done.
   * @throws LensError as {@link scan}
   */
  advance(until: number): Scan | undefined {
    if (current !== this.#number && this.#kept) putBack(this.#kept)
    current = this.#number
    for (;;) {
      let verdict = this.#next()
      for (;;) {
        this.#take()
        if (verdict !== status.full) break
        verdict = scanner.resume(Number(this.#at === this.#bytes.length))
      }
      if (verdict === status.done)
        return { members: this.#members, oddKeys: this.#oddKeys ?? none, start: results[1]!, isAscii: results[2] === 1 }
      if (verdict !== status.more) fail(this.#bytes, reasons[results[3]!]!, results[4]!)
      if (until !== Infinity && performance.now() >= until) return void (this.#kept = state())
    }
  }

  /** Scans the next stretch. */
  #next(): number {
    const bytes = this.#bytes
    const from = this.#at
    const to = Math.min(bytes.length, from + stretch)
    const last = Number(to === bytes.length)
    const address = this.#inPlace ? bytes.byteOffset + from : input
    if (!this.#inPlace) memory.set(from === 0 && last ? bytes : bytes.subarray(from, to), input)
    this.#at = to
    return from === 0 ? scanner.begin(address, to, last) : scanner.proceed(address, to - from, last)
  }

  /** Takes the members out of the table. */
  #take(): void {
    const bytes = this.#bytes
    const members = this.#members
    const end = results[0]! * words.member
    for (let at = 0; at < end; at += words.member) {
      const keyStart = found[at]!
      const flags = found[at + 4]!
      const keyEnd = found[at + 1]! - 1
      if (keyEnd - keyStart > maxKeyBytes) fail(bytes, `a key is longer than ${maxKeyBytes} bytes`, keyStart)
      const { text: key, odd } =
        flags & words.plainKey
          ? nameAt(bytes, keyStart + 1, keyEnd)
          : named(spelled(bytes.toString('utf8', keyStart + 1, keyEnd)))
      const { size } = members
      members.set(key, {
        keyStart,
        valueStart: found[at + 2]!,
        valueEnd: found[at + 3]!,
        plain: (flags & words.plainValue) !== 0
      })
      if (members.size === size) fail(bytes, `the key ${JSON.stringify(key.slice(0, 64))} appears twice`, keyStart)
      if (size === maxMembers) fail(bytes, `more than ${maxMembers} members`, keyStart)
      if (odd) (this.#oddKeys ??= []).push(key)
    }
  }
}

/** Bytes of a member that an outline has, with its key, and of all of them. */
const longestOutlined = 16 * 1024
const mostOutlined = 64 * 1024

/**
 * Follows a JSON object that comes in pieces of which few are kept: it says of it that it is none, or that its end is
 * missing, and what its small members are.
 */
export class Following {
  readonly #number = ++scans
  #kept: State | undefined
  /** The latest pieces, as many as a small member may lie in, and where in the object they begin and end. */
  readonly #latest: Buffer[] = []
  #from = 0
  #to = 0
  /** Small members, as they are written. */
  readonly #members: Buffer[] = []
  #outlined = 0

  /** @throws LensError when no JSON object goes on like that; none may follow then */
  push(bytes: Buffer): void {
    this.#latest.push(bytes)
    this.#to += bytes.length
    for (let at = 0; at < bytes.length; at += stretch) this.#advance(bytes.subarray(at, at + stretch), 0)
    while (this.#to - this.#from - this.#latest[0]!.length >= longestOutlined) {
      this.#from += this.#latest.shift()!.length
    }
  }

  /** The object as far as it has come, without its large members: what tells of it, and not what it is full of. */
  get outline(): Buffer {
    const members = this.#members.flatMap((member, index) => (index === 0 ? [member] : [comma, member]))
    return Buffer.concat([opening, ...members, closing])
  }

  /** No more bytes come. @throws LensError when the object has not come to its end */
  end(): void {
    this.#advance(nothing, 1)
  }

  #advance(bytes: Buffer, last: number): void {
    const kept = this.#kept
    if (current !== this.#number && kept) putBack(kept)
    current = this.#number
    memory.set(bytes, input)
    let verdict = kept ? scanner.proceed(input, bytes.length, last) : scanner.begin(input, bytes.length, last)
    for (;;) {
      this.#take()
      if (verdict !== status.full) break
      verdict = scanner.resume(last)
    }
    if (verdict !== status.done && verdict !== status.more)
      throw new LensError(`${reasons[results[3]!]!} (byte ${results[4]!})`)
    this.#kept = state()
  }

  /** Keeps the small ones of the members in the table. */
  #take(): void {
    const end = results[0]! * words.member
    for (let at = 0; at < end; at += words.member) {
      const [from, to] = [found[at]!, found[at + 3]!]
      const length = to - from
      if (length > longestOutlined || from < this.#from || this.#outlined + length > mostOutlined) continue
      this.#outlined += length
      this.#members.push(this.#copy(from, to))
    }
  }

  #copy(from: number, to: number): Buffer {
    const parts: Buffer[] = []
    let start = this.#from
    for (const piece of this.#latest) {
      parts.push(piece.subarray(Math.max(0, from - start), Math.max(0, to - start)))
      start += piece.length
    }
    return Buffer.concat(parts)
  }
}

const opening = Buffer.from('{')
const comma = Buffer.from(',')
const closing = Buffer.from('}')

/** What the module knows of a scan. */
interface State {
  globals: readonly number[]
  stack: Uint8Array
}

function state(): State {
  return { globals: globals.map((global) => global.value), stack: memory.slice(stack, stack + scanner.depth.value) }
}

function putBack(kept: State): void {
  for (let i = 0; i < globals.length; i++) globals[i]!.value = kept.globals[i]!
  memory.set(kept.stack, stack)
}

const nothing = Buffer.alloc(0)

const none: readonly string[] = []

function spelled(text: string): string {
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text
}

function fail({ length }: Buffer, what: string, at: number): never {
  throw new LensError(at >= length ? `${what}: the body ends at byte ${length}` : `${what} (byte ${at})`)
}
