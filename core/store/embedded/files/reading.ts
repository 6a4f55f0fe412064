// Reads files.
import { closeSync, openSync } from 'node:fs'

/** Opens a file for reading while `work` is called. */
export function withFile<T>(path: string, work: (fd: number) => T): T {
  const fd = openSync(path, 'r')
  try {
    return work(fd)
  } finally {
    closeSync(fd)
  }
}
