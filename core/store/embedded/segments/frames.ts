// Reads a journal from any batch on, whether it is in a segment or in a volume.
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { pathOf } from './folder.ts'
import { Following } from './following.ts'
import type { FollowedFrame } from './following.ts'
import type { JournalSurvey } from './journal-survey.ts'
import type { SegmentHead } from './segment-head.ts'
import type { Written } from './segment-log.ts'
import { Volume } from './volume.ts'

/** Where frames are: segments, and volumes of those that have gone. */
export type Sources = Pick<JournalSurvey, 'segments' | 'volumes'>

/** A segment or a volume, with the last batch of it. */
export interface SourceOfFrames {
  readonly head: SegmentHead
  readonly last: number
  readonly source: Written | Volume
}

/** What has frames, in order: a segment where there is one, else its volume. */
export function sourcesOf({ segments, volumes }: Sources): SourceOfFrames[] {
  const kept = new Set(segments.map(({ head }) => head.ordinal))
  return [
    ...segments.map((source) => ({ head: source.head, last: source.last, source })),
    ...volumes
      .filter(({ contents }) => !kept.has(contents.ordinal))
      .map((source) => ({ head: source.contents, last: source.contents.last, source }))
  ].sort((one, other) => one.head.ordinal - other.head.ordinal)
}

/** Likewise, but a volume where there is one: nothing is written to it, and its footer says what it has. */
export function sealedSourcesOf({ segments, volumes }: Sources): SourceOfFrames[] {
  const sealed = new Set(volumes.map(({ contents }) => contents.ordinal))
  return sourcesOf({ volumes, segments: segments.filter(({ head }) => !sealed.has(head.ordinal)) })
}

/** The history of the start that wrote a batch; undefined when the journal does not have it. */
export function historyAt(sources: Sources, batch: number): string | undefined {
  return sourcesOf(sources).find(({ head, last }) => head.after < batch && batch <= last)?.head.history
}

/**
 * Yields the frames behind the batch `after`, in order.
 * @throws Error when one is missing or damaged
 */
export function* framesBehind(sources: Sources, after: number): Generator<FollowedFrame> {
  let number = after
  for (const source of sourcesOf(sources)) {
    if (source.last <= number) continue
    yield* framesOf(source, number)
    number = source.last
  }
}

/**
 * Yields the frames of one source behind the batch `after`. A gateway may seal a segment meanwhile, and use its file
 * again: then its volume has them.
 * @throws Error when one is missing or damaged
 */
export function* framesOf({ head, source }: SourceOfFrames, after: number): Generator<FollowedFrame> {
  if (source instanceof Volume) {
    yield* framesIn(source, after)
    return
  }
  const following = new Following()
  let number = after
  try {
    for (const frame of following.frames([source], after)) {
      yield frame
      number = frame.batch.number
    }
  } catch (error) {
    const path = pathOf(dirname(source.path), 'volume', head.ordinal)
    if (!existsSync(path)) throw error
    yield* framesIn(new Volume(path), number)
  } finally {
    following.close()
  }
}

function* framesIn(volume: Volume, after: number): Generator<FollowedFrame> {
  const { contents: head } = volume
  for (const frame of volume.frames(after)) yield { ...frame, head, at: 0, unrecorded: head.unrecorded }
}
