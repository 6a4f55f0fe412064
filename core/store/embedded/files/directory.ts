// Makes changes of a folder durable.
import { closeSync, constants, fsyncSync, openSync } from 'node:fs'

/** Syncs a directory, so that the names of new files in it are durable. */
export function syncDirectory(path: string): void {
  const fd = openSync(path, constants.O_RDONLY)
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
