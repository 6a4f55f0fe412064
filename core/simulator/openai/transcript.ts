// Spreads a text over the time of a recording, and writes it in the forms of transcripts.
import { splitTokens } from '../words/tokens.ts'

/** A part of a transcript. Times are in seconds. */
export interface Span {
  start: number
  end: number
  text: string
}

/** The sentences of a text as segments. Each lasts in proportion to its length. */
export function segmentsOf(text: string, seconds: number): Span[] {
  return spread(text.match(/\S.*?(?:[.!?](?=\s)|$)/gsu) ?? [], seconds)
}

/** The words of a text, without what is between them. */
export function wordsOf(text: string, seconds: number): Span[] {
  return spread(text.match(/\S+/gu) ?? [], seconds)
}

function spread(texts: readonly string[], seconds: number): Span[] {
  const all = texts.reduce((sum, text) => sum + text.length, 0)
  let passed = 0
  return texts.map((text) => {
    const start = rounded((passed / all) * seconds)
    passed += text.length
    return { start, end: rounded((passed / all) * seconds), text }
  })
}

const rounded = (seconds: number): number => Math.round(seconds * 1000) / 1000

/** The segments in the SubRip format. */
export function srtOf(segments: readonly Span[]): string {
  return segments
    .map(({ start, end, text }, i) => `${i + 1}\n${clock(start, ',')} --> ${clock(end, ',')}\n${text.trim()}\n\n`)
    .join('')
}

/** https://www.w3.org/TR/webvtt1/ */
export function vttOf(segments: readonly Span[]): string {
  return `WEBVTT\n\n${segments.map(({ start, end, text }) => `${clock(start, '.')} --> ${clock(end, '.')}\n${text.trim()}\n\n`).join('')}`
}

function clock(seconds: number, point: string): string {
  const milliseconds = Math.round(seconds * 1000)
  const digits = (value: number, length = 2): string => String(Math.floor(value)).padStart(length, '0')
  return `${digits(milliseconds / 3_600_000)}:${digits((milliseconds / 60_000) % 60)}:${digits((milliseconds / 1000) % 60)}${point}${digits(milliseconds % 1000, 3)}`
}

/** A segment of verbose_json. */
export function verboseSegment({ start, end, text }: Span, id: number): object {
  const tokens = splitTokens(text).map((_, i) => i)
  return {
    id,
    seek: 0,
    start,
    end,
    text,
    tokens,
    temperature: 0,
    avg_logprob: -0.2,
    compression_ratio: 1.2,
    no_speech_prob: 0.01
  }
}

/** A segment of diarized_json, also as an event of its stream. Two speakers alternate. */
export function spokenSegment(
  { start, end, text }: Span,
  i: number
): { id: string; start: number; end: number; text: string; speaker: string; type: string } {
  return { type: 'transcript.text.segment', id: `seg_${i + 1}`, start, end, text, speaker: i % 2 === 0 ? 'A' : 'B' }
}
