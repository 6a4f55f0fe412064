// Memory for what is written to sockets. What a socket takes at once, as nearly always, leaves its memory to the next
// write, so that events and requests make no memory that V8 has to look after.
import type { Socket } from 'node:net'

/** A write of at most so many bytes is worth being put together here. */
export const outgoingBytes = 16 * 1024

/** A socket that does not take what it is given keeps all of a block alive. */
const blockBytes = 64 * 1024
let block = Buffer.allocUnsafeSlow(blockBytes)
/** What comes before is kept by sockets that have not sent it. */
let free = 0

/**
 * Memory for one write of up to {@link outgoingBytes}. Fill it, and give it to {@link writeOutgoing} before anything
 * is written.
 */
export function outgoing(length: number): Buffer {
  if (length > block.length - free) {
    block = Buffer.allocUnsafeSlow(blockBytes)
    free = 0
  }
  return block.subarray(free, free + length)
}

/**
 * Writes what {@link outgoing} gave. `socket`: one of Node's own, which either hands bytes to the system in this call,
 * or says that it still has them. False when its buffer is full.
 */
export function writeOutgoing(socket: Socket, bytes: Buffer): boolean {
  const flowing = socket.write(bytes)
  if (socket.writableLength > 0) free += bytes.length
  return flowing
}
