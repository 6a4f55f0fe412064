// The beginning of a segment of the commit log, in front of its frames: its head, and a note about the other segment.
import { createHash } from 'node:crypto'
import { closeSync, constants, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { syncDirectory } from '../files/directory.ts'
import { crc32 } from 'node:zlib'
import { readNumber, writeNumber } from './frame.ts'
import type { Durability } from '../files/sqlite.ts'

/** The paths of the two segments of a database. */
export function segmentPaths(file: string): [string, string] {
  return [`${file}.log0`, `${file}.log1`]
}

/** Where the frames begin: behind the head of the segment and the note, which have a page each. */
export const framesAt = 8192
/** Where the note is. */
export const noteAt = 4096

/**
 * The length of a history in bytes. A history is a random id, written in hexadecimal. Every start of a store makes a
 * new one, so that no two copies of a store ever share one.
 */
export const historyBytes = 8

const mark = Buffer.from('sluicelg')
const format = 1
const layout = { mark: 0, format: 8, boot: 12, history: 20, base: 28, checksum: 60, bytes: 64 } as const
const noteLayout = { history: 0, batch: 8, checksum: 16, bytes: 20 } as const

/** The state of a database from which a log can go on. */
export interface Standing {
  history: string
  boot: number
  batch: number
  seq: number
  hash: string
}

/** The contents of a segment's head. */
export interface SegmentHead {
  history: string
  boot: number
  /** The digest by {@link baseOf} of the state of the database when the segment was made, before its history began. */
  base: string
}

/** The digest of a state, in hexadecimal. */
export function baseOf({ history, boot, batch, seq, hash }: Standing): string {
  return createHash('sha256')
    .update(JSON.stringify([history, boot, batch, seq, hash]))
    .digest('hex')
}

/** Encodes the first page of a segment. The note behind it stays: it names the history that it belongs to. */
export function segmentStart({ history, boot, base }: SegmentHead): Buffer {
  const bytes = Buffer.alloc(noteAt)
  mark.copy(bytes, layout.mark)
  bytes.writeUInt32BE(format, layout.format)
  writeNumber(bytes, boot, layout.boot)
  bytes.write(history, layout.history, 'hex')
  bytes.write(base, layout.base, 'hex')
  bytes.writeUInt32BE(crc32(bytes.subarray(0, layout.checksum)), layout.checksum)
  return bytes
}

/**
 * Writes the heads of both segments, and makes the files when they are missing. All batches in the files must be in the
 * database.
 */
export function makeSegments(file: string, durability: Durability, head: SegmentHead): void {
  const bytes = segmentStart(head)
  for (const path of segmentPaths(file)) {
    const fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
    try {
      for (let at = 0; at < bytes.length; at += writeSync(fd, bytes, at, bytes.length - at, at));
      if (durability === 'power') fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
  }
  if (durability === 'power') syncDirectory(dirname(file))
}

/**
 * Reads the head of a segment; undefined when it is damaged.
 * @throws Error when a version with another format wrote it
 */
export function readSegmentHead(fd: number): SegmentHead | undefined {
  const bytes = Buffer.alloc(layout.bytes)
  if (readSync(fd, bytes, 0, bytes.length, 0) < bytes.length || mark.compare(bytes, layout.mark, layout.format) !== 0)
    return undefined
  if (crc32(bytes.subarray(0, layout.checksum)) !== bytes.readUInt32BE(layout.checksum)) return undefined
  const found = bytes.readUInt32BE(layout.format)
  if (found !== format)
    throw new Error(`the commit log has format ${found}, which this program does not know: start the one that wrote it`)
  const hex = (from: number, to: number): string => bytes.toString('hex', from, to)
  return {
    history: hex(layout.history, layout.base),
    boot: readNumber(bytes, layout.boot),
    base: hex(layout.base, layout.checksum)
  }
}

/**
 * Encodes a note: the number of the last batch in the log. It is written now and then into the segment that is not
 * written to, so that a missing end of the other segment is noticed.
 */
export function encodeNote(history: string, batch: number): Buffer {
  const bytes = Buffer.alloc(noteLayout.bytes)
  bytes.write(history, noteLayout.history, 'hex')
  writeNumber(bytes, batch, noteLayout.batch)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, noteLayout.checksum)), noteLayout.checksum)
  return bytes
}

/** What a note says: how far the log of a history had gone. */
export interface Note {
  history: string
  batch: number
}

/** Reads the note at a position in a file; undefined when there is none, or a damaged one. */
export function noteIn(fd: number, at: number): Note | undefined {
  const bytes = Buffer.alloc(noteLayout.bytes)
  if (
    readSync(fd, bytes, 0, bytes.length, at) < bytes.length ||
    crc32(bytes.subarray(0, noteLayout.checksum)) !== bytes.readUInt32BE(noteLayout.checksum)
  )
    return undefined
  return {
    history: bytes.toString('hex', noteLayout.history, noteLayout.batch),
    batch: readNumber(bytes, noteLayout.batch)
  }
}

/** Reads the number of the batch in the note of a segment; 0 when it has none for this history. */
export function readNote(fd: number, history: string): number {
  const note = noteIn(fd, noteAt)
  return note?.history === history ? note.batch : 0
}
