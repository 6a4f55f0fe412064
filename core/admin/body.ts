// Reads the body of an admin request as JSON.
import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../errors.ts'

/**
 * Bytes; a request of the admin API has some hundred. More of them, all wrong, would take long to be found fault with.
 */
const largest = 16 * 1024

/**
 * Reads a body to its end, also one that is too large, so that its sender is there to read the answer.
 * @throws GatewayError `request_too_large`, or `invalid_json` when it is no JSON in UTF-8 or ends too early
 */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const bytes = await readBytes(request)
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

/** What a JSON text consists of, as far as members are concerned: strings with what comes behind them, and braces. */
const pieces = /("(?:[^"\\]|\\.)*")(\s*:)?|[{}]/g

/** A member that an object of a valid JSON text has twice, of which parsers take one or the other. */
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

async function readBytes(request: IncomingMessage): Promise<Buffer> {
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
    throw new GatewayError('request_too_large', `The body has ${length} bytes: the admin API takes ${largest}.`)
  return Buffer.concat(pieces)
}
