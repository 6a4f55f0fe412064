// Reads and checks a request to rerank documents.
import { hash } from 'node:crypto'
import type { Call } from '../endpoint.ts'
import { takeDirective } from '../directive.ts'
import { integer, invalid, isBoolean, isObject, isString, missing, optional, parseObject } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { readModel } from '../openai/models.ts'
import { countTokens } from '../words/tokens.ts'
import type { RerankRequest } from './request.ts'
import type { Shape } from './shapes.ts'

const defaultModel = 'rerank-v3.5'
const mostDocuments = 10_000

/** @throws Refusal */
export function readRerankRequest(call: Call, shape: Shape): RerankRequest {
  const body = parseObject(call.body)
  const model = readModel(call, shape.modelRequired ? body : { model: defaultModel, ...body })
  const query = optional(body, 'query', isString, 'a string')
  if (query === undefined || query === '') throw missing('query')
  const { directive, prompt } = takeDirective(query, model, 'query')
  const documents = readDocuments(body['documents'], shape)
  const returnDocuments = optional(body, 'return_documents', isBoolean, 'true or false') ?? shape.returnsDocuments
  return {
    id: uuid(hash('sha1', [model, query, ...documents].join('\0'))),
    model,
    directive,
    documents,
    query: prompt,
    limit: readLimit(body, shape) ?? documents.length,
    returnDocuments: shape.returnsDocuments !== undefined && returnDocuments === true,
    tokens: documents.reduce((sum, text) => sum + countTokens(text), countTokens(query))
  }
}

function readDocuments(given: unknown, { objects }: Shape): string[] {
  if (given === undefined) throw missing('documents')
  if (!Array.isArray(given) || given.length === 0 || given.length > mostDocuments)
    throw invalid('documents', `Expected an array of 1 to ${mostDocuments} documents.`)
  return given.map((document: unknown, i) => {
    if (isString(document)) return document
    if (objects && isObject(document) && isString(document['text'])) return document['text']
    throw invalid(`documents[${i}]`, objects ? 'Expected a string or an object with a text.' : 'Expected a string.')
  })
}

function readLimit(body: Fields, { limit }: Shape): number | undefined {
  return optional(body, limit, integer(1, Number.MAX_SAFE_INTEGER), 'an integer of at least 1')
}

function uuid(digest: string): string {
  return [
    digest.slice(0, 8),
    digest.slice(8, 12),
    digest.slice(12, 16),
    digest.slice(16, 20),
    digest.slice(20, 32)
  ].join('-')
}
