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
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as unknown
  } catch {
    throw new GatewayError('invalid_json', 'The body is no JSON in UTF-8.')
  }
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
