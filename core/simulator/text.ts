// The text of one answer, cut to its limits and into the pieces it is streamed in.
import { splitTokens } from './tokens.ts'

/** A text that is known without being held: `pieces` may be asked for again and gives the same. */
export interface Text {
  tokens: number
  /** The token limit was reached before the text ended. */
  cut: boolean
  pieces(): Iterable<string>
}

/** Bounds on a text. */
export interface TextLimits {
  tokens?: number | undefined
  stop?: readonly string[]
  /** The most pieces to stream it in; without it each token is one. */
  chunks?: number | undefined
}

/** A text given in full. It ends before the first stop sequence, then at the token limit. */
export function writtenText(source: string, { tokens: limit = Infinity, stop = [], chunks }: TextLimits): Text {
  const ends = stop.map((sequence) => source.indexOf(sequence)).filter((at) => at !== -1)
  const all = splitTokens(ends.length > 0 ? source.slice(0, Math.min(...ends)) : source)
  const kept = all.length > limit ? all.slice(0, limit) : all
  return { tokens: kept.length, cut: kept.length < all.length, pieces: () => group(kept, chunks) }
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

/** As many bytes as asked for, made while they are read; a token is eight of them. Stop sequences do not apply. */
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
