// embedContent and batchEmbedContents: a vector of unit length for each content.
import { hash } from 'node:crypto'
import { jsonAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { takeFromAny } from '../directive.ts'
import { integer, isString, parseObject } from '../fields.ts'
import { Refusal } from '../refusal.ts'
import { vectorOf } from '../words/vector.ts'
import { readContent } from './contents.ts'
import { allowed, listOf, membersOf, wrong } from './fields.ts'
import { modelOf } from './models.ts'

/** https://ai.google.dev/api/embeddings */
export const embedContent: Endpoint = {
  method: 'POST',
  path: '/{version}/models/{model+}:embedContent',
  answer: (call) => answer(call, [parseObject(call.body)], 'EmbedContentRequest', ([embedding]) => ({ embedding }))
}

export const batchEmbedContents: Endpoint = {
  method: 'POST',
  path: '/{version}/models/{model+}:batchEmbedContents',
  answer(call) {
    const requests = listOf(membersOf(parseObject(call.body), '', ['requests']), '', 'requests')
    if (requests.length === 0 || requests.length > mostRequests)
      throw wrong('BatchEmbedContentsRequest.requests', `Expected 1 to ${mostRequests} requests.`)
    return answer(call, requests, 'requests', (embeddings, usage) => ({ embeddings, ...usage }))
  }
}

const mostRequests = 100
const defaultDimensions = 3072
const mostDimensions = 4096

function answer(
  call: Call,
  requests: readonly unknown[],
  path: string,
  shape: (embeddings: object[], usage: object) => object
): Answer {
  const model = modelOf(call)
  const read = requests.map((request, i) => readRequest(request, `${path}[${i}]`, model))
  const tokens = read.reduce((sum, entry) => sum + entry.tokens, 0)
  const { directive, prompts } = takeFromAny(
    read.map(({ text }) => text),
    model,
    'content'
  )
  const embeddings = prompts.map((text, i) => ({
    values: Array.from(vectorOf(hash('sha1', `${model}\0${text}`), read[i]!.dimensions), (value) =>
      Number(value.toPrecision(9))
    )
  }))
  const usage = directive.usage === undefined ? { promptTokenCount: tokens } : directive.usage
  return jsonAnswer(shape(embeddings, usage === null ? {} : { usageMetadata: usage }), directive, { prompt: tokens })
}

function readRequest(
  given: unknown,
  path: string,
  model: string
): { text: string; tokens: number; dimensions: number } {
  const request = membersOf(given, path, [
    'model',
    'content',
    'taskType',
    'title',
    'outputDimensionality',
    'embedContentConfig'
  ])
  const named = allowed(request, path, 'model', isString, 'a string')
  if (named !== undefined && named.replace(/^models\//, '') !== model)
    throw new Refusal(400, `* ${path}.model: the model must be the one of the path.`)
  if (request['content'] === undefined) throw wrong(`${path}.content`, 'content is not specified')
  const { parts } = readContent(request['content'], `${path}.content`)
  return {
    text: parts.map(({ text }) => text).join('\n'),
    tokens: parts.reduce((sum, part) => sum + part.tokens, 0),
    dimensions:
      allowed(
        request,
        path,
        'outputDimensionality',
        integer(1, mostDimensions),
        `an integer from 1 to ${mostDimensions}`
      ) ?? defaultDimensions
  }
}
