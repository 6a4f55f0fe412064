// Notices that the configuration file has new content, however it got there.
import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'

export interface WatchOptions {
  /** SHA-256 of the content that is in use, hexadecimal: what differs from it is new. */
  hash: string
  /** Called with the hash of new content once it has stayed the same for one interval. */
  onChange(hash: string): void
  /** Milliseconds between two looks. */
  interval?: number
}

/**
 * Watches one file by looking at it: notifications go silent after the first rename over the file or swap of a symbolic
 * link (an editor's save, a mounted ConfigMap) and do not exist on network mounts. Content is read only when the file's
 * identity, size or times changed, and reported when two looks in a row found the same, so that a half-written file is
 * waited for. A file that is gone is waited for too. Never keeps the process alive.
 */
export function watchConfig(file: string, { hash, onChange, interval = 1000 }: WatchOptions): { close(): void } {
  let settled = hash
  let candidate = hash
  let seen = ''
  let timer: NodeJS.Timeout | undefined
  let closed = false

  /** The hash of new content that has settled. */
  const look = async (): Promise<string | undefined> => {
    const stats = await stat(file, { bigint: true })
    const identity = [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(':')
    if (!stats.isFile() || (identity === seen && candidate === settled)) return undefined
    const found = createHash('sha256').update(await readFile(file)).digest('hex')
    const stable = found === candidate
    seen = identity
    candidate = found
    return stable && found !== settled ? found : undefined
  }
  const again = async (): Promise<void> => {
    // What can not be read now (between unlink and rename, say) is looked at again; loading says what is wrong with it.
    const found = await look().catch(() => undefined)
    if (closed) return
    timer = setTimeout(again, interval).unref()
    if (found === undefined) return
    settled = found
    onChange(found)
  }
  void again()
  return {
    close() {
      closed = true
      clearTimeout(timer)
    }
  }
}
