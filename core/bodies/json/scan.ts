// Finds the members of a JSON object in its bytes and checks all of it, by way of a module in WebAssembly.
import { nameAt } from './names.ts'
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

/** The module's memory as assembly/scanner.ts lays it out, in bytes. */
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

interface Scanner {
  memory: { buffer: ArrayBuffer }
  begin(address: number, length: number, last: number): number
  proceed(length: number, last: number): number
  resume(last: number): number
}

/** Part of Node, and not of the types that come with it. */
declare const WebAssembly: {
  Module: new (code: Uint8Array) => object
  Instance: new (module: object) => { exports: Scanner }
}

/** One for all: a scan is done before the next begins. */
const scanner = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(code, 'base64'))).exports
const memory = new Uint8Array(scanner.memory.buffer)
const results = new Int32Array(scanner.memory.buffer, 0, 5)
const found = new Int32Array(scanner.memory.buffer, table)

/** Memory for whoever wants it: what lies here is scanned where it is. Nothing is written to it. */
export const scannable = Buffer.from(scanner.memory.buffer, spare, memory.length - spare - page)

/** @throws LensError when the bytes are not exactly one JSON object with every key once, white space around it allowed */
export function scan(bytes: Buffer): Scan {
  const { length } = bytes
  const members = new Map<string, Member>()
  const inPlace = bytes.buffer === scanner.memory.buffer
  let at = inPlace ? length : Math.min(length, stretch)
  if (!inPlace) memory.set(at === length ? bytes : bytes.subarray(0, at), input)
  let verdict = scanner.begin(inPlace ? bytes.byteOffset : input, at, Number(at === length))
  for (;;) {
    take(bytes, members)
    if (verdict === status.done) return { members, start: results[1]!, isAscii: results[2] === 1 }
    if (verdict === status.full) verdict = scanner.resume(Number(at === length))
    else if (verdict === status.more) {
      const next = Math.min(length, at + stretch)
      memory.set(bytes.subarray(at, next), input)
      verdict = scanner.proceed(next - at, Number(next === length))
      at = next
    } else fail(bytes, reasons[results[3]!]!, results[4]!)
  }
}

/** Takes the members out of the table. */
function take(bytes: Buffer, members: Map<string, Member>): void {
  const end = results[0]! * words.member
  for (let at = 0; at < end; at += words.member) {
    const keyStart = found[at]!
    const flags = found[at + 4]!
    const keyEnd = found[at + 1]! - 1
    const key = flags & words.plainKey ? nameAt(bytes, keyStart + 1, keyEnd) : spelled(bytes.toString('utf8', keyStart + 1, keyEnd))
    const { size } = members
    members.set(key, { keyStart, valueStart: found[at + 2]!, valueEnd: found[at + 3]!, plain: (flags & words.plainValue) !== 0 })
    if (members.size === size) fail(bytes, `the key ${JSON.stringify(key.slice(0, 64))} appears twice`, keyStart)
  }
}

function spelled(text: string): string {
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text
}

function fail({ length }: Buffer, what: string, at: number): never {
  throw new LensError(at >= length ? `${what}: the body ends at byte ${length}` : `${what} (byte ${at})`)
}
