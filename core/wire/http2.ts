// HTTP/2: its error codes, and Node's module, which is loaded with the first connection that speaks it.
import type * as Http2 from 'node:http2'

/** Why a stream or a session ends (RFC 9113 §7). */
export const errorCodes = { noError: 0, internalError: 2, refusedStream: 7, cancel: 8 } as const
/** The flag of the last frame of a request or an answer (RFC 9113 §6.2). */
export const endStream = 1

/** Node's module. The first call loads it, which takes 12 ms of CPU. */
export function http2(): typeof Http2 {
  return process.getBuiltinModule('node:http2')
}
