// Vectors of Vertex AI: predictions of the text models, and embedContent of the newer ones, one text at a time.
// https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api
import { asObject, asObjects } from '../object.ts'
import { inRequests } from './maker.ts'
import type { Maker } from './maker.ts'
import { countIn, Stripped, sum } from './vectors.ts'

/** The most texts of one prediction. */
const mostInstances = 250

/** Whether a model is asked with embedContent. Google's own client libraries tell it by the same names. */
export function takesContent(model: string): boolean {
  return (model.includes('gemini') && model !== 'gemini-embedding-001') || model.includes('maas')
}

export const predict: Maker = {
  knows: { purpose: true, title: true },
  write(asked, model) {
    const { dimensions } = asked
    return inRequests(asked, model === 'gemini-embedding-001' ? 1 : mostInstances, (some) => ({
      instances: some.map(({ text, purpose, title }) => ({
        content: text,
        ...(purpose !== undefined && { task_type: purpose }),
        ...(title !== undefined && { title })
      })),
      ...(dimensions !== undefined && { parameters: { outputDimensionality: dimensions } })
    }))
  },
  read(text) {
    const stripped = new Stripped(text)
    const made = asObjects(stripped.rest['answers']).flatMap(({ predictions }) =>
      asObjects(predictions).map(({ embeddings }) => asObject(embeddings))
    )
    return {
      vectors: made.map((one) => stripped.at(one?.['values'])),
      tokens: sum(made.map((one) => countIn(asObject(one?.['statistics'])?.['token_count'])))
    }
  }
}

export const embedContent: Maker = {
  knows: { purpose: true, title: true },
  write: (asked) =>
    inRequests(asked, 1, ([one]) => ({
      content: { parts: [{ text: one!.text }] },
      ...(one!.purpose !== undefined && { taskType: one!.purpose }),
      ...(one!.title !== undefined && { title: one!.title }),
      ...(asked.dimensions !== undefined && { outputDimensionality: asked.dimensions })
    })),
  read(text) {
    const stripped = new Stripped(text)
    const answers = asObjects(stripped.rest['answers'])
    return {
      vectors: answers.map(({ embedding }) => stripped.at(asObject(embedding)?.['values'])),
      tokens: sum(answers.map(({ usageMetadata }) => countIn(asObject(usageMetadata)?.['promptTokenCount'])))
    }
  }
}
