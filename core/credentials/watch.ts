// Notices that a file was replaced.
import { stat } from 'node:fs/promises'

/** Milliseconds between two looks. */
const interval = 500

/**
 * Calls `onChange` when the file is another, or has other content, than when this was called, and each time that it
 * changes again; once it has stood still for one look, so that it is not read half-written. Nothing is said of a file
 * that is gone; one that was not there has changed when it comes. Looking works where notifications do not: after a
 * rename, a swapped symbolic link (a mounted Secret), and on network mounts. The returned function ends it. It never
 * keeps the process alive.
 */
export function watchFile(file: string, onChange: () => void): () => void {
  let known: string | undefined
  let seen: string | undefined
  let looking = false
  const look = async (): Promise<void> => {
    if (looking) return
    looking = true
    const now = await identityOf(file)
    looking = false
    known ??= now ?? 'none'
    if (now === undefined) return
    const still = now === seen
    seen = now
    if (!still || now === known) return
    known = now
    onChange()
  }
  void look()
  const timer = setInterval(() => void look(), interval).unref()
  return () => clearInterval(timer)
}

async function identityOf(file: string): Promise<string | undefined> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true })
    return [dev, ino, size, mtimeNs, ctimeNs].join(':')
  } catch {
    return undefined
  }
}
