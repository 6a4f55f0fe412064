// Memory for large reads, which is read into again once it has been written elsewhere: V8 looks through the whole heap
// for every 64 MiB of new buffers.

/** What one read may take. */
export const blockBytes = 64 * 1024
/** More than these are left to the garbage collector. */
const spareBlocks = 32

const spare: Buffer[] = []
/** Those that were given out, and whose memory may come back. */
const given = new WeakMap<ArrayBufferLike, Buffer>()

/** A block. It is not cleared. Whoever keeps it need not give it back: it is then garbage like any other buffer. */
export function takeBlock(): Buffer {
  const block = spare.pop() ?? Buffer.allocUnsafeSlow(blockBytes)
  given.set(block.buffer, block)
  return block
}

/**
 * Gives a block back, by any view of it. Nobody may use any view of it any more. Memory from elsewhere, and a block
 * that was given back before, are left alone.
 */
export function giveBlock({ buffer }: Buffer): void {
  const block = given.get(buffer)
  if (block === undefined) return
  given.delete(buffer)
  if (spare.length < spareBlocks) spare.push(block)
}
