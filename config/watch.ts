// Notices that a file of the configuration has new content, however it got there.
import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'

export interface WatchOptions {
  /**
   * Asked for at each look: the files, with the SHA-256 (hexadecimal) of the content that was last read of each, by
   * whoever uses it. What differs is new.
   */
  files(): ReadonlyMap<string, string>
  /**
   * Called with the paths of files that have new content, once nothing about any of the files has changed for one
   * interval.
   */
  onChange(files: readonly string[]): void
  /** Milliseconds between two looks. */
  interval?: number
}

/** What is known of a file. */
interface Seen {
  identity: string
  /** Of its content. */
  hash: string
  /** What was reported last, and instead of what. */
  reported: string
}

/**
 * Watches files by looking at them: notifications go silent after the first rename over a file or swap of a symbolic
 * link (an editor's save, a mounted ConfigMap) and do not exist on network mounts. Content is read only when a file's
 * identity, size or times changed, and reported when two looks in a row found the same, so that a half-written file is
 * waited for, and a key for its certificate. A file that is gone is waited for too. Never keeps the process alive.
 */
export function watchConfig({ files, onChange, interval = 1000 }: WatchOptions): { close(): void } {
  const known = new Map<string, Seen>()
  let timer: NodeJS.Timeout | undefined
  let closed = false

  /** Whether the file has not changed since the look before. */
  const look = async (file: string, seen: Seen): Promise<boolean> => {
    const stats = await stat(file, { bigint: true })
    const identity = [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(':')
    if (!stats.isFile() || identity === seen.identity) return true
    const hash = createHash('sha256')
      .update(await readFile(file))
      .digest('hex')
    const same = hash === seen.hash
    // Not before it is stable: what is written within the resolution of its times looks the same and may be read
    // halfway.
    seen.identity = same ? identity : ''
    seen.hash = hash
    return same
  }
  const again = async (): Promise<void> => {
    const changed = new Map<string, string>()
    let still = true
    for (const [file, inUse] of files()) {
      let seen = known.get(file)
      if (!seen) known.set(file, (seen = { identity: '', hash: inUse, reported: '' }))
      // What cannot be read now (between unlink and rename, say) is looked at again; loading says what is wrong with
      // it.
      still = (await look(file, seen).catch(() => true)) && still
      if (seen.hash === inUse || seen.reported === `${inUse} ${seen.hash}`) continue
      changed.set(file, `${inUse} ${seen.hash}`)
    }
    if (closed) return
    timer = setTimeout(again, interval).unref()
    if (!still || changed.size === 0) return
    for (const [file, change] of changed) known.get(file)!.reported = change
    onChange([...changed.keys()])
  }
  void again()
  return {
    close() {
      closed = true
      clearTimeout(timer)
    }
  }
}
