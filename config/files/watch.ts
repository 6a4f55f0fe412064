// Watches the files and folders of a configuration for new content.
import { createHash } from 'node:crypto'
import type { BigIntStats } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hashOfNames, yamlNames } from './files.ts'

/** How files are watched, and who is told. */
export interface WatchOptions {
  /**
   * Called at each look. Returns the files, each with the SHA-256 (in hexadecimal) of the content that is in use. A
   * file with other content is new. A path that ends in a slash is of a folder, whose content is the names of its YAML
   * files.
   */
  files(): ReadonlyMap<string, string>
  /** Called with the paths of files with new content, once none of the files has changed for one interval. */
  onChange(files: readonly string[]): void
  /** Milliseconds between two looks. Default: 1000. */
  interval?: number
}

/** What the last look found of a file or folder. */
interface Seen {
  identity: string
  /** The SHA-256 of its content. */
  hash: string
  /** Of a folder with other names than those in use: what its files were like, which nobody else looks at so far. */
  newcomers?: string
  /** The last reported change: the hash in use, and the new one. */
  reported: string
}

/**
 * Watches files by looking at them regularly. Notifications of the system stop after the first rename over a file or
 * swap of a symbolic link (an editor's save, a mounted ConfigMap), and do not exist on network mounts. Content is read
 * only when a file's identity, size or times changed. It is reported only when two looks in a row found the same, so
 * that a half-written file is complete, and a key has its certificate. A file that is gone is waited for as well.
 * Watching never keeps the process alive.
 */
export function watchConfig({ files, onChange, interval = 1000 }: WatchOptions): { close(): void } {
  const known = new Map<string, Seen>()
  let timer: NodeJS.Timeout | undefined
  let closed = false

  /** Looks at a file or folder. Returns whether it has not changed since the look before. */
  const look = async (file: string, seen: Seen, inUse: string): Promise<boolean> => {
    const stats = await stat(file, { bigint: true })
    const identity = identityOf(stats)
    if (file.endsWith('/')) return lookInto(file, identity, seen, inUse)
    if (!stats.isFile() || identity === seen.identity) return true
    const hash = createHash('sha256')
      .update(await readFile(file))
      .digest('hex')
    const same = hash === seen.hash
    // The identity is kept only when the content is stable. A write within the resolution of the file's times leaves
    // them equal, and may have been read halfway.
    seen.identity = same ? identity : ''
    seen.hash = hash
    return same
  }
  const lookInto = async (folder: string, identity: string, seen: Seen, inUse: string): Promise<boolean> => {
    if (identity === seen.identity && seen.hash === inUse) return true
    const names = yamlNames(await readdir(folder))
    const hash = hashOfNames(names)
    const ofEach = async (name: string): Promise<string> =>
      stat(join(folder, name), { bigint: true }).then(identityOf, () => 'gone')
    const newcomers = hash === inUse ? '' : (await Promise.all(names.map(ofEach))).join(' ')
    const same = hash === seen.hash && newcomers === (seen.newcomers ?? '')
    seen.identity = same ? identity : ''
    seen.hash = hash
    seen.newcomers = newcomers
    return same
  }
  const again = async (): Promise<void> => {
    const changed = new Map<string, string>()
    let still = true
    for (const [file, inUse] of files()) {
      let seen = known.get(file)
      if (!seen) known.set(file, (seen = { identity: '', hash: inUse, reported: '' }))
      // A file that cannot be read now, for example between unlink and rename, is looked at again later. Loading the
      // file reports what is wrong with it.
      still = (await look(file, seen, inUse).catch(() => true)) && still
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

function identityOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(':')
}
