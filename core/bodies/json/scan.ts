// Finds the members of a JSON object in its bytes and checks all of it, with a module in WebAssembly.
import { kinds } from './kinds.ts'
import { named, nameAt } from './names.ts'
import { code } from './scanner-code.ts'

/** Where a member is in the bytes. */
export interface Member {
  /** The offset of the opening quote of its key. */
  keyStart: number
  valueStart: number
  /** Exclusive. */
  valueEnd: number
  /**
   * Whether the value is a string without escapes and beyond-ASCII bytes. Of long strings it may be false all the same.
   */
  plain: boolean
  /**
   * The bytes of text that the strings in the value say, with escapes as the characters that they stand for; a number
   * counts as four. Keys do not count, nor strings that {@link kinds} says are the same in every request.
   */
  said: number
  /** The pictures, sounds and files in the value, or addresses of such. */
  media: number
}

/** The result of a scan. */
export interface Scan {
  members: Map<string, Member>
  /** Keys with other characters than small letters, digits, `_`, `-` and `.`; nearly always none. */
  oddKeys: readonly string[]
  /** The offset of the opening brace. */
  start: number
  /** Whether all bytes are ASCII. */
  isAscii: boolean
  /** The bits of every {@link Watch} that may have a key of the text among its names. */
  mentioned: number
}

/** Why bytes are not a usable JSON object. The message names the byte offset. */
export class LensError extends Error {
  override readonly name = 'LensError'
}

/** How deeply containers may be nested. Deeper objects are refused, as parsers of upstreams have finite stacks. */
export const maxDepth = 512
/** The most members of one object: far more than any protocol has, and few enough to be found quickly. */
export const maxMembers = 1000
/** The longest key as it is written, in bytes. */
export const maxKeyBytes = 1024

/** The layout of the module's memory as assembly/scanner.ts has it, in bytes. */
const stack = 32
const table = 1024
const input = 16 * 1024
const stretch = 64 * 1024
/** How many bytes of the stretch before lie before the input area, so that most keys are there as a whole. */
const kept = 32
const kindPlaces = 96 * 1024
const kindEntries = 97 * 1024
const kindEntry = { bytes: 32, length: 16, kind: 17 }
const watched = 98 * 1024
const namePlaces = 1024
/** Where the part begins that {@link scannable} offers. The last page is left unused. */
const spare = 128 * 1024
const page = 64 * 1024
const words = { member: 7, plainKey: 1, plainValue: 2 }
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

/** A global of the module, saved between the parts of a scan. */
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

/** Node has it, but its types do not. */
declare const WebAssembly: {
  Global: new () => Global
  Module: new (code: Uint8Array) => object
  Instance: new (module: object) => { exports: Scanner }
}

/** The one module. A scan restores its own state when another one has run in between. */
const scanner = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(code, 'base64'))).exports
const globals = Object.values(scanner).filter((value): value is Global => value instanceof WebAssembly.Global)
const memory = new Uint8Array(scanner.memory.buffer)
const results = new Int32Array(scanner.memory.buffer, 0, 6)
const found = new Int32Array(scanner.memory.buffer, table)
/** By the place of a name: the watches that it is in. */
const inWatch = new Uint8Array(scanner.memory.buffer, watched, namePlaces)
const mostWatches = 8
let watches = 0
/** The number of scans so far, and the scan whose state the module holds. */
let scans = 0
let current = 0

/** Memory to put bodies in, so that they are scanned without being copied. The scanner never writes to it. */
export const scannable = Buffer.from(scanner.memory.buffer, spare, memory.length - spare - page)

/**
 * Names that every scan looks out for from now on: it notes whether its text may have one of them as a key, at any
 * depth and in any case. Where it may not, nobody has to search the text for them. Make it when a module loads.
 */
export class Watch {
  /** The bit in {@link Scan.mentioned}. The watches that there is no room for share one, which is always set. */
  readonly bit = 1 << Math.min(watches++, mostWatches)

  /** `names`: in ASCII. */
  constructor(names: Iterable<string>) {
    for (const name of names) inWatch[placeOf(name)]! |= this.bit
  }
}

/** The place of a name in the tables of names, whatever its case. The scanner computes the same. */
function placeOf(name: string): number {
  const { length } = name
  const middle = name.charCodeAt(length >> 1) | 0x20
  const last = name.charCodeAt(length - 1) | 0x20
  return (length * 17 + middle * 31 + last) % namePlaces
}

for (const [index, [name, kind]] of kinds.entries()) {
  const number = index + 1
  const entry = kindEntries + number * kindEntry.bytes
  memory[kindPlaces + placeOf(name)] = number
  memory.set(Buffer.from(name, 'latin1'), entry)
  memory[entry + kindEntry.length] = name.length
  memory[entry + kindEntry.kind] = kind
}

/**
 * Scans a whole JSON object.
 * @throws LensError when the bytes are not exactly one JSON object in which every key occurs once. White space around
 * it is allowed.
 */
export function scan(bytes: Buffer): Scan {
  return new Scanning(bytes).advance(Infinity)!
}

/** A scan that can be done in several parts, with other scans in between. */
export class Scanning {
  readonly #number = ++scans
  readonly #bytes: Buffer
  readonly #inPlace: boolean
  readonly #members = new Map<string, Member>()
  #oddKeys: string[] | undefined
  /** How many bytes have been scanned. */
  #at = 0
  /** The state of this scan, while another one uses the module. */
  #kept: State | undefined

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#inPlace = bytes.buffer === scanner.memory.buffer
  }

  /**
   * Scans at least one stretch, and goes on until the time `until` (`performance.now()`), or to the end if that is
   * infinite. Undefined: the scan is not done.
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
        return {
          members: this.#members,
          oddKeys: this.#oddKeys ?? none,
          start: results[1]!,
          isAscii: results[2] === 1,
          mentioned: results[5]! | (1 << mostWatches)
        }
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
    if (!this.#inPlace) {
      const before = from === 0 ? 0 : kept
      memory.set(from === 0 && last ? bytes : bytes.subarray(from - before, to), input - before)
    }
    this.#at = to
    return from === 0 ? scanner.begin(address, to, last) : scanner.proceed(address, to - from, last)
  }

  /** Reads the members out of the table. */
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
        plain: (flags & words.plainValue) !== 0,
        said: found[at + 5]!,
        media: found[at + 6]!
      })
      if (members.size === size) fail(bytes, `the key ${JSON.stringify(key.slice(0, 64))} appears twice`, keyStart)
      if (size === maxMembers) fail(bytes, `more than ${maxMembers} members`, keyStart)
      if (odd) (this.#oddKeys ??= []).push(key)
    }
  }
}

/** The largest member that an outline keeps, key included, and the most of all members together, in bytes. */
const longestOutlined = 16 * 1024
const mostOutlined = 64 * 1024

/**
 * Checks a JSON object that comes in pieces without keeping all of it. It reports an error, or a missing end, and
 * collects the small members.
 */
export class Following {
  readonly #number = ++scans
  #kept: State | undefined
  /** Copies of the latest bytes, in which a small member may still begin; and the range of the object they cover. */
  #latest: Buffer[] = []
  /** Where the end of a large piece is copied to. */
  #tail: Buffer | undefined
  #from = 0
  #to = 0
  /** The small members as they are written. */
  readonly #members: Buffer[] = []
  #outlined = 0

  /**
   * Takes the next bytes, and keeps no view of them.
   * @throws LensError when the bytes cannot continue a JSON object; nothing may be pushed after that
   */
  push(bytes: Buffer): void {
    this.#latest.push(bytes)
    this.#to += bytes.length
    for (let at = 0; at < bytes.length; at += stretch) this.#advance(bytes.subarray(at, at + stretch), 0)
    this.#keep(bytes)
  }

  /** Puts copies in the place of the bytes just pushed, as far as a small member may have begun in them. */
  #keep(bytes: Buffer): void {
    if (bytes.length >= longestOutlined) {
      this.#tail ??= Buffer.allocUnsafeSlow(longestOutlined)
      bytes.copy(this.#tail, 0, bytes.length - longestOutlined)
      this.#latest = [this.#tail]
      this.#from = this.#to - longestOutlined
      return
    }
    this.#latest[this.#latest.length - 1] = Buffer.from(bytes)
    while (this.#to - this.#from - this.#latest[0]!.length >= longestOutlined) {
      this.#from += this.#latest.shift()!.length
    }
  }

  /** The object so far without its large members: enough to tell what it is about. */
  get outline(): Buffer {
    const members = this.#members.flatMap((member, index) => (index === 0 ? [member] : [comma, member]))
    return Buffer.concat([opening, ...members, closing])
  }

  /**
   * Says that no more bytes come.
   * @throws LensError when the object is not complete
   */
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

  /** Keeps the small members of the table. */
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

/** The state of a scan, as the module has it. */
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
