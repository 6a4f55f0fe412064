// Opens the log of a store where its start left off.
import type { Troubles } from '../files/troubles.ts'
import { volumeFolder } from '../journal/volume.ts'
import type { BatchLog } from '../log/batch-log.ts'
import { CommitLog } from '../log/commit-log.ts'
import { SegmentLog } from '../segments/segment-log.ts'
import type { WriterOptions } from './feed.ts'
import type { Snapshot } from './snapshot.ts'

/**
 * Opens it for appending.
 * @throws Error when a file cannot be opened
 */
export function openLog(
  { file, durability, segments }: WriterOptions,
  start: Snapshot['log'],
  troubles: Troubles
): BatchLog {
  if ('base' in start) return new CommitLog(file, durability, start)
  return new SegmentLog(volumeFolder(file), start, {
    durability,
    sizes: segments,
    tell: (error) => (error === undefined ? troubles.over('segment') : troubles.begin('segment', error))
  })
}
