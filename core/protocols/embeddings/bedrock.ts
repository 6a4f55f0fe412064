// Vectors of models that Amazon Bedrock invokes: Titan's, one text at a time, and Cohere's.
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html and
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html
import type { Asked } from './asked.ts'
import { invalid, Untranslatable } from '../canonical/untranslatable.ts'
import { asObject, asObjects } from '../object.ts'
import { invokedTokens } from '../usage/bedrock.ts'
import { inRequests } from './maker.ts'
import type { Maker } from './maker.ts'
import { countIn, Stripped, sum } from './vectors.ts'

/** The most texts of one request to Cohere's models. */
const mostOfCohere = 96

/** The lengths of vectors that a model can be asked for; the first model that matches counts. */
const lengths: readonly { readonly model: RegExp; readonly can: readonly number[] }[] = [
  { model: /titan-embed-text-v2/, can: [256, 512, 1024] },
  { model: /titan-embed-image/, can: [256, 384, 1024] },
  { model: /titan-embed/, can: [] },
  { model: /cohere\.embed-\w+-v3/, can: [] },
  { model: /cohere\.embed-v4/, can: [256, 512, 1024, 1536] }
]

/** What vectors are for, in Cohere's words. */
const purposes: Readonly<Record<string, string>> = {
  RETRIEVAL_QUERY: 'search_query',
  QUESTION_ANSWERING: 'search_query',
  FACT_VERIFICATION: 'search_query',
  CODE_RETRIEVAL_QUERY: 'search_query',
  RETRIEVAL_DOCUMENT: 'search_document',
  CLASSIFICATION: 'classification',
  CLUSTERING: 'clustering'
}

/** Whether a model is one of Cohere's, by its id, inference profile or ARN. */
export function isCohere(model: string): boolean {
  return model.includes('cohere.embed')
}

export const titan: Maker = {
  knows: {},
  write(asked, model) {
    const dimensions = lengthOf(asked, model)
    const length = model.includes('titan-embed-image')
      ? { embeddingConfig: { outputEmbeddingLength: dimensions } }
      : { dimensions }
    return inRequests(asked, 1, ([one]) => ({ inputText: one!.text, ...(dimensions !== undefined && length) }))
  },
  read(text) {
    const stripped = new Stripped(text)
    const answers = asObjects(stripped.rest['answers'])
    return {
      vectors: answers.map(({ embedding }) => stripped.at(embedding)),
      tokens: sum(answers.map(({ inputTextTokenCount }) => countIn(inputTextTokenCount)))
    }
  }
}

export const cohereOnBedrock: Maker = {
  knows: { purpose: true },
  write(asked, model) {
    const dimensions = lengthOf(asked, model)
    const input_type = purposeOf(asked)
    return inRequests(asked, mostOfCohere, (some) => ({
      texts: some.map(({ text }) => text),
      input_type,
      ...(dimensions !== undefined && { output_dimension: dimensions })
    }))
  },
  read(text) {
    const stripped = new Stripped(text, true)
    const { answers, heads } = stripped.rest
    return {
      vectors: asObjects(answers).flatMap(({ embeddings }) => {
        const lists = Array.isArray(embeddings) ? embeddings : asObject(embeddings)?.['float']
        return Array.isArray(lists) ? lists.map((index) => stripped.at(index)) : []
      }),
      tokens: invokedTokens(heads)
    }
  }
}

function lengthOf({ dimensions, places }: Asked, model: string): number | undefined {
  const known = dimensions === undefined ? undefined : lengths.find((one) => one.model.test(model))
  if (!known || known.can.includes(dimensions!)) return dimensions
  if (known.can.length > 0) throw invalid(places.dimensions, `one of ${known.can.join(', ')} with this model`)
  throw new Untranslatable(
    'unsupported_parameter',
    'The length of the vectors of this model cannot be chosen.',
    places.dimensions
  )
}

/** Cohere's models want to be told; documents are what most vectors are of. */
function purposeOf({ texts, places }: Asked): string {
  const wanted = new Set(texts.map(({ purpose }) => purpose))
  if (wanted.size > 1)
    throw new Untranslatable(
      'unsupported_parameter',
      'This model makes all vectors of a request for one purpose.',
      places.purpose
    )
  const [purpose] = wanted
  if (purpose === undefined) return 'search_document'
  if (Object.hasOwn(purposes, purpose)) return purposes[purpose]!
  throw new Untranslatable(
    'unsupported_parameter',
    `This model makes no vectors for this purpose; it knows ${Object.keys(purposes).join(', ')}.`,
    places.purpose
  )
}
