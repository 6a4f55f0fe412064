// What clients of OpenAI's and of Gemini's protocol ask for when they want vectors, and how they are answered:
// https://platform.openai.com/docs/api-reference/embeddings and https://ai.google.dev/api/embeddings
import { invalid, Untranslatable } from '../canonical/untranslatable.ts'
import { asObject, asObjects } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { bytesOf } from '../openai/embedding-format.ts'

/** The most texts in one request of Gemini's protocol. */
const mostTexts = 100

/** One text, and what its client says of it. */
export interface AskedText {
  readonly text: string
  /** What its vector is for, in Gemini's words: `RETRIEVAL_QUERY`. */
  readonly purpose: string | undefined
  readonly title: string | undefined
}

/** A request for embeddings, in either protocol. */
export interface Asked {
  readonly texts: readonly AskedText[]
  readonly dimensions: number | undefined
  /** Where these stand, for errors and for what is left out. */
  readonly places: {
    readonly texts: string
    readonly dimensions: string
    readonly purpose: string
    readonly title: string
  }
  /** Members that no other protocol can express. */
  readonly dropped: readonly string[]
  /** Writes the client's answer. `vectors`: JSON text of each, in the order of the texts. */
  answer(vectors: readonly string[], tokens: number | undefined, model: string): string
}

/** What `input_type` is called by several vendors, in Gemini's words. */
const purposes: Readonly<Record<string, string>> = {
  search_query: 'RETRIEVAL_QUERY',
  query: 'RETRIEVAL_QUERY',
  search_document: 'RETRIEVAL_DOCUMENT',
  document: 'RETRIEVAL_DOCUMENT',
  passage: 'RETRIEVAL_DOCUMENT',
  classification: 'CLASSIFICATION',
  clustering: 'CLUSTERING'
}

/** @throws Untranslatable for what is no such request */
export function openaiAsked(request: JsonObject): Asked {
  const { input, dimensions, encoding_format: format, input_type: type, model: _model, ...others } = request
  const texts = typeof input === 'string' ? [input] : Array.isArray(input) ? (input as unknown[]) : []
  if (texts.length === 0) throw invalid('input', 'a text or a list of texts')
  const purpose = purposeOf(type)
  return {
    texts: texts.map((text) => {
      if (typeof text === 'string') return { text, purpose, title: undefined }
      throw new Untranslatable('unsupported_parameter', 'This model takes texts, not lists of tokens.', 'input')
    }),
    dimensions: numberOf(dimensions, 'dimensions'),
    places: { texts: 'input', dimensions: 'dimensions', purpose: 'input_type', title: 'title' },
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

function purposeOf(type: unknown): string | undefined {
  if (type === undefined || type === null) return undefined
  if (typeof type === 'string' && Object.hasOwn(purposes, type)) return purposes[type]
  throw invalid('input_type', `one of ${Object.keys(purposes).join(', ')}`)
}

/**
 * Reads one request, or a batch. The sizes of its requests have to agree, as the other protocols have them only once.
 *
 * @throws Untranslatable for what is no such request
 */
export function geminiAsked(request: JsonObject): Asked {
  const batch = request['requests'] !== undefined
  const entries = batch ? asObjects(request['requests']) : [request]
  if (entries.length === 0 || entries.length > mostTexts)
    throw invalid('requests', `a list of 1 to ${mostTexts} requests`)
  const sizes = new Set(entries.map((entry) => entry['outputDimensionality'] ?? entry['output_dimensionality']))
  const place = batch ? 'requests[].' : ''
  if (sizes.size > 1)
    throw new Untranslatable(
      'unsupported_parameter',
      'This model makes all vectors of a request of one length.',
      `${place}outputDimensionality`
    )
  return {
    texts: entries.map((entry, i) => ({
      text: textOf(entry['content'], batch ? `requests[${i}].content` : 'content'),
      purpose: wordOf(entry['taskType'] ?? entry['task_type']),
      title: wordOf(entry['title'])
    })),
    dimensions: numberOf([...sizes][0], `${place}outputDimensionality`),
    places: {
      texts: batch ? 'requests' : 'content',
      dimensions: `${place}outputDimensionality`,
      purpose: `${place}taskType`,
      title: `${place}title`
    },
    dropped: [
      ...new Set(
        entries.flatMap((entry) =>
          Object.keys(entry)
            .filter((name) => !known.has(name))
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

const known: ReadonlySet<string> = new Set([
  'model',
  'content',
  'outputDimensionality',
  'output_dimensionality',
  'taskType',
  'task_type',
  'title'
])

function wordOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
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
