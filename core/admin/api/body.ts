// Reads the body of an admin request as JSON.
import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../errors.ts'

/**
 * The largest body in bytes, where a route does not say otherwise. A request of the admin API has a few hundred, and
 * checking a large faulty one would take long.
 */
const usual = 16 * 1024

/**
 * Reads a body as JSON. It reads even one that is too large to its end, so that the sender gets the answer.
 * @throws GatewayError `request_too_large`; or `invalid_json` when the body is missing, is not JSON in UTF-8, has a
 * member twice, or ends too early
 */
export async function readJson(request: IncomingMessage, largest = usual): Promise<unknown> {
  const bytes = await readBytes(request, largest)
  if (bytes.length === 0) throw new GatewayError('invalid_json', 'The body is missing: send a JSON object.')
  const [text, value] = parse(bytes)
  const doubled = doubledMember(text)
  if (doubled === undefined) return value
  throw new GatewayError('invalid_json', `The member ${JSON.stringify(doubled)} is there twice: keep one.`)
}

function parse(bytes: Buffer): [text: string, value: unknown] {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return [text, JSON.parse(text)]
  } catch {
    throw new GatewayError('invalid_json', 'The body is no JSON in UTF-8.')
  }
}

/**
 * The pieces of a JSON text that matter for finding members: strings with a colon behind them if there is one, and
 * braces.
 */
const pieces = /("(?:[^"\\]|\\.)*")(\s*:)?|[{}]/g

/** Finds a member that an object of a valid JSON text has twice. Parsers differ in which of the two they take. */
function doubledMember(text: string): string | undefined {
  const open: Set<string>[] = []
  for (const [piece, quoted, colon] of text.matchAll(pieces)) {
    if (piece === '{') open.push(new Set())
    else if (piece === '}') open.pop()
    else if (quoted !== undefined && colon !== undefined) {
      const names = open.at(-1)!
      const name = JSON.parse(quoted) as string
      if (names.has(name)) return name
      names.add(name)
    }
  }
  return undefined
}

async function readBytes(request: IncomingMessage, largest: number): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  try {
    for await (const piece of request as AsyncIterable<Buffer>) {
      length += piece.length
      if (length <= largest) pieces.push(piece)
    }
  } catch (error) {
    throw new GatewayError('invalid_json', 'The body ended too early.', { cause: error })
  }
  if (length > largest)
    throw new GatewayError('request_too_large', `The body has ${length} bytes: here ${largest} are taken.`)
  return Buffer.concat(pieces)
}
