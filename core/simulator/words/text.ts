// The text of one answer, within its limits and in the pieces that are streamed.
import { splitTokens } from './tokens.ts'

/** A text that need not be held in memory: `pieces` can be called again and gives the same pieces. */
export interface Text {
  tokens: number
  /** Whether the token limit cut the text. */
  cut: boolean
  /** The stop sequence that ended it. */
  stopped?: string | undefined
  pieces(): Iterable<string>
}

/** The limits of a text. */
export interface TextLimits {
  tokens?: number | undefined
  stop?: readonly string[]
  /** The most pieces to stream it in. Without it each token is a piece. */
  chunks?: number | undefined
}

/** A text that is given in full. It ends before the first stop sequence, or at the token limit. */
export function writtenText(source: string, { tokens: limit = Infinity, stop = [], chunks }: TextLimits): Text {
  const { end, stopped } = firstOf(stop, source)
  const all = splitTokens(source.slice(0, end))
  const kept = all.length > limit ? all.slice(0, limit) : all
  const cut = kept.length < all.length
  return { tokens: kept.length, cut, ...(!cut && { stopped }), pieces: () => group(kept, chunks) }
}

function firstOf(sequences: readonly string[], source: string): { end: number; stopped: string | undefined } {
  let first: { end: number; stopped: string | undefined } = { end: source.length, stopped: undefined }
  for (const stopped of sequences) {
    const end = source.indexOf(stopped)
    if (end !== -1 && end < first.end) first = { end, stopped }
  }
  return first
}

/** The whole text in one string. */
export function joined(text: Text): string {
  return [...text.pieces()].join('')
}

function group(tokens: readonly string[], chunks = tokens.length): Iterable<string> {
  const count = Math.min(Math.max(chunks, 1), tokens.length)
  if (count === tokens.length) return tokens
  return Array.from({ length: count }, (_, i) =>
    tokens.slice(Math.floor((i * tokens.length) / count), Math.floor(((i + 1) * tokens.length) / count)).join('')
  )
}

const unit = 'simulat '
const defaultPiece = 4096

/** Filler of this many bytes, made while it is read. Eight bytes are a token. Stop sequences are ignored. */
export function fillerText(bytes: number, { tokens: limit = Infinity, chunks }: TextLimits): Text {
  const length = Math.min(bytes, limit * unit.length)
  const count = Math.max(Math.min(chunks ?? Math.ceil(length / defaultPiece), length), 1)
  return {
    tokens: Math.ceil(length / unit.length),
    cut: length < bytes,
    *pieces() {
      let at = 0
      for (let i = 1; i <= count; i++) {
        const end = Math.floor((i * length) / count)
        const phase = at % unit.length
        yield unit.repeat(Math.ceil((phase + end - at) / unit.length)).slice(phase, phase + end - at)
        at = end
      }
    }
  }
}
