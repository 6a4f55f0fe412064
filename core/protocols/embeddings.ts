// Translates embeddings between https://ai.google.dev/api/embeddings and
// https://platform.openai.com/docs/api-reference/embeddings. Vectors keep the digits that the upstream wrote.
import { badAnswer, invalid, Untranslatable } from './canonical/untranslatable.ts'
import { protocols } from './index.ts'
import { asObject, asObjects } from './object.ts'
import type { JsonObject } from './object.ts'
import { bytesOf, numbersOf } from './openai/embedding-format.ts'
import type { Protocol } from './protocol.ts'

/** The largest request that is translated, in bytes. No upstream takes more, and translating it would take long. */
const mostBytes = 4 * 1024 * 1024
/** The most texts in one request of Gemini's protocol. */
const mostTexts = 100

/** A request for embeddings, in either protocol. */
interface Asked {
  texts: readonly string[]
  dimensions: number | undefined
  /** Members that the other protocol cannot express. */
  dropped: readonly string[]
  /** Writes the client's answer. `vectors`: JSON text of each, in the order of the texts. */
  answer(vectors: readonly string[], tokens: number | undefined, model: string): string
}

/** A request for the upstream, and the way back for its answer. */
export interface TranslatedEmbeddings {
  body: Buffer
  dropped: readonly string[]
  /**
   * `model`: the client's name of it.
   * @throws Untranslatable when the body is no answer
   */
  answer(body: Buffer, model: string): Buffer
}

/** Whether embeddings can be translated between the two protocols. */
export function translatesEmbeddings(client: Protocol, upstream: Protocol): boolean {
  const both = [protocols['openai-embeddings'], protocols['gemini-embed']]
  return client !== upstream && both.includes(client) && both.includes(upstream)
}

/**
 * `model`: the upstream's name of it.
 * @throws Untranslatable when the upstream cannot do what is asked for
 */
export function translateEmbeddings(client: Protocol, body: Buffer, model: string): TranslatedEmbeddings {
  if (body.length > mostBytes)
    throw new Untranslatable(
      'invalid_field',
      `The request is larger than ${mostBytes} bytes, the most that this model takes at one time.`,
      'input'
    )
  const request = asObject(JSON.parse(body.toString('utf8'))) ?? {}
  const toGemini = client === protocols['openai-embeddings']
  const asked = toGemini ? openaiAsked(request) : geminiAsked(request)
  const { texts, dimensions, dropped } = asked
  const sent = toGemini
    ? {
        requests: texts.map((text) => ({
          model: `models/${model}`,
          content: { parts: [{ text }] },
          ...(dimensions !== undefined && { outputDimensionality: dimensions })
        }))
      }
    : { model, input: texts, encoding_format: 'float', ...(dimensions !== undefined && { dimensions }) }
  return {
    body: Buffer.from(JSON.stringify(sent)),
    dropped,
    answer(answer, name) {
      const { rest, vectors } = withoutVectors(answer.toString('utf8'))
      const read = toGemini ? geminiVectors(rest, vectors) : openaiVectors(rest, vectors)
      if (read.vectors.length !== texts.length)
        throw badAnswer(`The upstream gave ${read.vectors.length} vectors for ${texts.length} texts.`)
      return Buffer.from(asked.answer(read.vectors, read.tokens, name))
    }
  }
}

function openaiAsked(request: JsonObject): Asked {
  const { input, dimensions, encoding_format: format, model: _model, ...others } = request
  const texts = typeof input === 'string' ? [input] : Array.isArray(input) ? (input as unknown[]) : []
  if (texts.length === 0) throw invalid('input', 'a text or a list of texts')
  if (!texts.every((text) => typeof text === 'string'))
    throw new Untranslatable('unsupported_parameter', 'This model takes texts, not lists of tokens.', 'input')
  return {
    texts,
    dimensions: numberOf(dimensions, 'dimensions'),
    dropped: Object.keys(others),
    answer(vectors, tokens = 0, model) {
      const shown =
        format === 'base64'
          ? vectors.map((vector) => JSON.stringify(bytesOf(JSON.parse(vector) as number[]).toString('base64')))
          : vectors
      const data = shown.map((vector, index) => `{"object":"embedding","index":${index},"embedding":${vector}}`)
      return `{"object":"list","data":[${data.join(',')}],"model":${JSON.stringify(model)},"usage":{"prompt_tokens":${tokens},"total_tokens":${tokens}}}`
    }
  }
}

/**
 * Reads one request, or a batch. The settings of its requests have to agree, as the other protocol has them only once.
 */
function geminiAsked(request: JsonObject): Asked {
  const batch = request['requests'] !== undefined
  const entries = batch ? asObjects(request['requests']) : [request]
  if (entries.length === 0 || entries.length > mostTexts)
    throw invalid('requests', `a list of 1 to ${mostTexts} requests`)
  const sizes = new Set(entries.map((entry) => entry['outputDimensionality'] ?? entry['output_dimensionality']))
  if (sizes.size > 1)
    throw new Untranslatable(
      'unsupported_parameter',
      'This model makes all vectors of a request of one length.',
      'requests[].outputDimensionality'
    )
  const place = batch ? 'requests[].' : ''
  const known = ['model', 'content', 'outputDimensionality', 'output_dimensionality']
  return {
    texts: entries.map((entry, i) => textOf(entry['content'], batch ? `requests[${i}].content` : 'content')),
    dimensions: numberOf([...sizes][0], `${place}outputDimensionality`),
    dropped: [
      ...new Set(
        entries.flatMap((entry) =>
          Object.keys(entry)
            .filter((name) => !known.includes(name))
            .map((name) => `${place}${name}`)
        )
      )
    ],
    answer(vectors, tokens) {
      const usage = tokens === undefined ? '' : `,"usageMetadata":{"promptTokenCount":${tokens}}`
      return batch
        ? `{"embeddings":[${vectors.map((vector) => `{"values":${vector}}`).join(',')}]${usage}}`
        : `{"embedding":{"values":${vectors[0]}}${usage}}`
    }
  }
}

function textOf(content: unknown, place: string): string {
  const parts = asObjects(asObject(content)?.['parts'])
  if (parts.length === 0) throw invalid(`${place}.parts`, 'a list of parts')
  if (!parts.every(({ text }) => typeof text === 'string'))
    throw new Untranslatable('unsupported_parameter', 'This model makes vectors of texts alone.', `${place}.parts`)
  return parts.map(({ text }) => text as string).join('\n')
}

function numberOf(value: unknown, place: string): number | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value > 0) return value
  throw invalid(place, 'a whole number from 1 up')
}

/**
 * Replaces each vector by its index before parsing, so that the parsed rest is small and the vectors keep their digits.
 */
function withoutVectors(text: string): { rest: JsonObject; vectors: readonly string[] } {
  const vectors: string[] = []
  const short = text.replace(
    /"(values|embedding)"\s*:\s*(\[[-+.\deE,\s]*\]|"[A-Za-z0-9+/=]*")/g,
    (_all, name: string, vector: string) => `"${name}":${vectors.push(vector) - 1}`
  )
  try {
    return { rest: asObject(JSON.parse(short)) ?? {}, vectors }
  } catch {
    throw badAnswer('The upstream sent an answer that is no JSON.')
  }
}

interface Vectors {
  vectors: readonly string[]
  tokens: number | undefined
}

function geminiVectors(rest: JsonObject, vectors: readonly string[]): Vectors {
  const lists = vectors.map((vector) => (vector.startsWith('[') ? vector : undefined))
  return {
    vectors: asObjects(rest['embeddings']).map(({ values }) => taken(lists, values)),
    tokens: tokensOf(rest['usageMetadata'], 'promptTokenCount')
  }
}

/** Sorts the vectors, and decodes those in base64: some upstreams send either without being asked. */
function openaiVectors(rest: JsonObject, vectors: readonly string[]): Vectors {
  const data = asObjects(rest['data']).map(({ index, embedding }, place) => ({
    index: typeof index === 'number' ? index : place,
    vector: taken(vectors, embedding)
  }))
  const sorted = data
    .sort((a, b) => a.index - b.index)
    .map(({ vector }) => (vector.startsWith('"') ? JSON.stringify(numbersOf(vector.slice(1, -1))) : vector))
  return { vectors: sorted, tokens: tokensOf(rest['usage'], 'prompt_tokens') }
}

function taken(vectors: readonly (string | undefined)[], index: unknown): string {
  const vector = typeof index === 'number' ? vectors[index] : undefined
  if (vector === undefined) throw badAnswer('The upstream sent a vector that cannot be read.')
  return vector
}

function tokensOf(usage: unknown, name: string): number | undefined {
  const tokens = asObject(usage)?.[name]
  return typeof tokens === 'number' && Number.isSafeInteger(tokens) && tokens >= 0 ? tokens : undefined
}
