// The model list, made from the catalogue: the models that the caller may use, in the form of the caller's protocol.
import type { Model } from '../catalogue/catalogue.ts'
import type { Exchange } from '../contract/contract.ts'
import { GatewayError } from '../contract/contract.ts'
import type { OperationContext, ServedOperation } from '../contract/served.ts'
import { caller } from '../contract/slots.ts'
import { unknownModel } from '../errors.ts'
import { anthropicModel, anthropicModels } from '../protocols/anthropic/models.ts'
import { geminiModel, modelOfToken, pageToken } from '../protocols/gemini/models.ts'
import { openaiModel, openaiModels } from '../protocols/openai/models.ts'
import {
  batchEmbedContents,
  embedContent,
  geminiCountTokens,
  generateContent,
  streamGenerateContent
} from './generate.ts'

const listed = {
  name: 'models',
  endpoint: 'models',
  summary: 'Lists the models that the key may use.',
  method: 'GET',
  paths: ['/v1/models'],
  body: 'none'
} as const satisfies Partial<ServedOperation>

const described = {
  name: 'models.retrieve',
  endpoint: 'models',
  summary: 'Describes one model; 404 for one that does not exist and for one that the key may not use.',
  method: 'GET',
  paths: ['/v1/models/{model...}'],
  body: 'none',
  model: { in: 'path', name: 'model' }
} as const satisfies Partial<ServedOperation>

/** For all clients that neither `speaksAnthropic` nor `speaksGemini` recognizes. */
const openai: readonly ServedOperation[] = [
  {
    ...listed,
    protocol: 'openai-chat',
    onRequest: (exchange, context) => ({ status: 200, body: openaiModels(visible(exchange, context)) })
  },
  {
    ...described,
    protocol: 'openai-chat',
    onRequest: (exchange, context) => ({ status: 200, body: openaiModel(asked(exchange, context)) })
  }
]

/** Only SDKs of Anthropic's protocol send this header. */
const speaksAnthropic: ServedOperation['when'] = (headers) => 'anthropic-version' in headers

const anthropic: readonly ServedOperation[] = [
  {
    ...listed,
    name: 'models.anthropic',
    summary: 'Lists the models that the key may use, a page at a time, for clients that send `anthropic-version`.',
    protocol: 'anthropic',
    when: speaksAnthropic,
    parameters: {
      limit: { type: 'integer', minimum: 1, maximum: 1000, default: 20, description: 'Models of a page.' },
      after_id: { type: 'string', description: 'The page begins behind this model.' },
      before_id: { type: 'string', description: 'The page ends before this model.' }
    },
    onRequest(exchange, context) {
      const query = new URLSearchParams(exchange.request.query)
      const { page, more } = pageOf(
        visible(exchange, context),
        sizeOf(query, 'limit', 20),
        query.get('after_id'),
        query.get('before_id')
      )
      return { status: 200, body: anthropicModels(page, more, exchange.receivedAt) }
    }
  },
  {
    ...described,
    name: 'models.anthropic.retrieve',
    protocol: 'anthropic',
    when: speaksAnthropic,
    onRequest: (exchange, context) => ({
      status: 200,
      body: anthropicModel(asked(exchange, context), exchange.receivedAt)
    })
  }
]

/**
 * Every path below `/v1beta` is Gemini's. Below `/v1` its clients are known by how they send their key or their name.
 */
const speaksGemini: ServedOperation['when'] = (headers, query, path) =>
  path.startsWith('/v1beta/') ||
  'x-goog-api-key' in headers ||
  'x-goog-api-client' in headers ||
  (query !== '' && new URLSearchParams(query).has('key'))

const methods = {
  generateContent,
  streamGenerateContent,
  countTokens: geminiCountTokens,
  embedContent,
  batchEmbedContents
} as const

const gemini: readonly ServedOperation[] = [
  {
    ...listed,
    name: 'models.gemini',
    summary: 'Lists the models that the key may use, a page at a time, in the protocol of Gemini.',
    paths: ['/v1beta/models', ...listed.paths],
    protocol: 'gemini',
    when: speaksGemini,
    parameters: {
      pageSize: { type: 'integer', minimum: 1, maximum: 1000, default: 50, description: 'Models of a page.' },
      pageToken: { type: 'string', description: 'The `nextPageToken` of the page before.' }
    },
    onRequest(exchange, context) {
      const query = new URLSearchParams(exchange.request.query)
      const token = query.get('pageToken')
      const { page, more } = pageOf(
        visible(exchange, context),
        sizeOf(query, 'pageSize', 50),
        token ? modelOfToken(token) : null,
        null
      )
      const models = page.map((model) => geminiModel(model, methodsOf(model)))
      return { status: 200, body: { models, ...(more && { nextPageToken: pageToken(page.at(-1)!) }) } }
    }
  },
  {
    ...described,
    name: 'models.gemini.retrieve',
    paths: ['/v1beta/models/{model...}', ...described.paths],
    protocol: 'gemini',
    when: speaksGemini,
    onRequest(exchange, context) {
      const model = asked(exchange, context)
      return { status: 200, body: geminiModel(model, methodsOf(model)) }
    }
  }
]

/** OpenAI's operations come last, as they serve every client that the others do not recognize. */
export const models: readonly ServedOperation[] = [...anthropic, ...gemini, ...openai]

function visible(exchange: Exchange, { catalogue }: OperationContext): Model[] {
  const who = exchange.find(caller)
  return [...catalogue.models.values()].filter((model) => who === undefined || who.mayUse(model.name))
}

function asked(exchange: Exchange, { catalogue }: OperationContext): Model {
  const { model: name } = exchange
  const model = catalogue.models.get(name)
  if (!model || exchange.find(caller)?.mayUse(name) === false) throw unknownModel(name)
  return model
}

/** The Gemini methods that at least one channel of the model supports. */
function methodsOf(model: Model): string[] {
  const { channels } = model.standIns?.models[0] ?? model
  return Object.entries(methods).flatMap(([method, { endpoint, upstream }]) =>
    channels.some((channel) => channel.endpoints.has(endpoint) && upstream?.[channel.protocol]) ? [method] : []
  )
}

/** One page of the list, after one model or before another. `more`: there are further models in that direction. */
function pageOf(
  all: readonly Model[],
  size: number,
  after: string | null,
  before: string | null
): { page: readonly Model[]; more: boolean } {
  const from = after === null ? 0 : placeOf(all, after) + 1
  if (before === null) return { page: all.slice(from, from + size), more: from + size < all.length }
  const end = placeOf(all, before)
  const begin = Math.max(from, end - size)
  return { page: all.slice(begin, end), more: begin > from }
}

function placeOf(all: readonly Model[], name: string): number {
  const place = all.findIndex((model) => model.name === name)
  if (place === -1)
    throw new GatewayError(
      'invalid_field',
      `The page cannot be found: there is no model \`${name.slice(0, 128)}\` in the list. Begin with the first page.`
    )
  return place
}

/** The page size that the query asks for; larger ones than 1000 are cut to 1000. */
function sizeOf(query: URLSearchParams, name: string, usual: number): number {
  const given = query.get(name) ?? ''
  if (given === '') return usual
  if (!/^\d{1,9}$/.test(given) || Number(given) === 0) {
    throw new GatewayError('invalid_field', `The parameter \`${name}\` must be a whole number from 1 to 1000.`, {
      param: name
    })
  }
  return Math.min(Number(given), 1000)
}
