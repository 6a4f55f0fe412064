// Who makes vectors: OpenAI's and Gemini's own protocol, and the platforms.
import { cohereOnBedrock, isCohere, titan } from './bedrock.ts'
import { Untranslatable } from '../canonical/untranslatable.ts'
import { protocols } from '../index.ts'
import { asObject, asObjects } from '../object.ts'
import type { Protocol } from '../protocol.ts'
import type { Maker } from './maker.ts'
import { countIn, Stripped } from './vectors.ts'
import { embedContent, predict, takesContent } from './predict.ts'

/** The model that is asked, by the upstream's name, and what its channel says of it. */
export interface VectorModel {
  readonly model: string
  readonly vectors?: 'single' | 'list' | undefined
}

const openai: Maker = {
  knows: {},
  write: ({ texts, dimensions }, model) => ({
    model,
    input: texts.map(({ text }) => text),
    encoding_format: 'float',
    ...(dimensions !== undefined && { dimensions })
  }),
  read(text) {
    const stripped = new Stripped(text)
    const data = asObjects(stripped.rest['data']).map(({ index, embedding }, place) => ({
      index: typeof index === 'number' ? index : place,
      vector: stripped.at(embedding)
    }))
    return {
      vectors: data.sort((a, b) => a.index - b.index).map(({ vector }) => vector),
      tokens: countIn(asObject(stripped.rest['usage'])?.['prompt_tokens'])
    }
  }
}

const gemini: Maker = {
  knows: { purpose: true, title: true },
  write: ({ texts, dimensions }, model) => ({
    requests: texts.map(({ text, purpose, title }) => ({
      model: `models/${model}`,
      content: { parts: [{ text }] },
      ...(purpose !== undefined && { taskType: purpose }),
      ...(title !== undefined && { title }),
      ...(dimensions !== undefined && { outputDimensionality: dimensions })
    }))
  }),
  read(text) {
    const stripped = new Stripped(text)
    return {
      vectors: asObjects(stripped.rest['embeddings']).map(({ values }) => stripped.at(values)),
      tokens: countIn(asObject(stripped.rest['usageMetadata'])?.['promptTokenCount'])
    }
  }
}

/**
 * How a model of this protocol makes vectors; undefined when no embeddings are translated for it.
 *
 * @throws Untranslatable when nobody knows
 */
export function makerFor(upstream: Protocol, { model, vectors }: VectorModel): Maker | undefined {
  switch (upstream) {
    case protocols['openai-embeddings']:
      return openai
    case protocols['gemini-embed']:
      return gemini
    case protocols['gemini-predict']:
      return takesContent(model) ? embedContent : predict
    case protocols['bedrock-embed']: {
      if (vectors === 'list' || (vectors === undefined && isCohere(model))) return cohereOnBedrock
      if (vectors === 'single' || model.includes('titan-embed')) return titan
      throw new Untranslatable(
        'unsupported_parameter',
        'Nobody knows how this model is asked for vectors: whoever runs the gateway can say it (traits.vectors).',
        'model'
      )
    }
    default:
      return undefined
  }
}
