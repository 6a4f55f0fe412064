// The folder of the socket on which a process takes what still comes on connections of the process before.
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The most bytes of a socket's path that every system takes (macOS: sockaddr_un has 104, with a zero byte). */
const longestPath = 103
const socketName = 'connections'

/** A socket that is to be made. */
export interface SocketPlace {
  /** Only for this user, and for the caller to remove. */
  readonly folder: string
  readonly path: string
}

/**
 * Makes a folder where the path of a socket is short enough: among the temporary files, in /tmp, or in one of `others`.
 * @throws Error saying what is wrong with each of them, and the remedy
 */
export async function makeSocketFolder(...others: readonly string[]): Promise<SocketPlace> {
  const faults: string[] = []
  for (const parent of new Set([tmpdir(), '/tmp', ...others])) {
    const prefix = join(parent, 'sluice-')
    // mkdtemp() adds six characters.
    const bytes = Buffer.byteLength(join(`${prefix}XXXXXX`, socketName))
    if (bytes > longestPath) {
      faults.push(`${parent}: the path of a socket there has ${bytes} bytes, and ${longestPath} are the most`)
      continue
    }
    try {
      const folder = await mkdtemp(prefix)
      return { folder, path: join(folder, socketName) }
    } catch (error) {
      faults.push((error as Error).message)
    }
  }
  throw new Error(`no folder can have the socket of a hand-over: set TMPDIR to another one (${faults.join('; ')})`)
}
