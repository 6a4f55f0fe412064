// Makes an OpenAPI 3.1 document from the table of operations, and has the operation that serves it.
import type { BodyKind, ParameterSchema } from '../contract/operation.ts'
import type { ServedOperation } from '../contract/served.ts'
import { version } from '../telling/version.ts'

/** https://spec.openapis.org/oas/v3.1.0 */
const openApiVersion = '3.1.0'

/**
 * The operation that serves the document. It needs no key, as the document holds only what is published. The document
 * is made at the first request.
 */
export function openApi(operations: readonly ServedOperation[]): ServedOperation {
  let document: unknown
  return {
    name: 'openapi',
    endpoint: 'models',
    summary: 'This interface as an OpenAPI document.',
    method: 'GET',
    paths: ['/openapi.json'],
    protocol: 'openai-chat',
    body: 'none',
    open: true,
    onRequest: () => ({ status: 200, body: (document ??= documentOf(operations)) })
  }
}

function documentOf(operations: readonly ServedOperation[]): unknown {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const operation of operations) {
    for (const [index, template] of operation.paths.entries()) {
      const methods = (paths[template.replace('...}', '}')] ??= {})
      const method = operation.method.toLowerCase()
      // Where `when` decides between operations, the document shows the one without it.
      if (!operation.when || !methods[method]) methods[method] = describe(operation, template, index)
    }
  }
  return {
    openapi: openApiVersion,
    info: { title: 'Sluice', version, summary: 'A gateway in front of AI models: one key, one bill, any protocol.' },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }, { apiKey: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'A key that begins with `sk-`.' },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' }
      },
      responses: {
        error: {
          description: 'What went wrong, in the form of the protocol.',
          content: { 'application/json': { schema: { $ref: '#/components/schemas/error' } } }
        }
      },
      schemas: {
        error: {
          type: 'object',
          required: ['error'],
          properties: {
            error: {
              type: 'object',
              properties: {
                type: { type: 'string' },
                message: { type: 'string' },
                code: { type: ['string', 'null'] },
                param: { type: ['string', 'null'] }
              }
            }
          }
        }
      }
    }
  }
}

function describe(operation: ServedOperation, template: string, index: number): unknown {
  const { name, endpoint, summary, open, model, parameters = {}, body } = operation
  const inPath = [...template.matchAll(/\{(\w+)(?:\.\.\.)?\}/g)].map(([, parameter]) => ({
    name: parameter,
    in: 'path',
    required: true,
    schema: { type: 'string' },
    description: model?.name === parameter ? 'A model of the model list.' : 'As in the path.'
  }))
  const inQuery =
    bodyTypes[body].length > 0
      ? []
      : Object.entries(parameters).map(([parameter, schema]) => queryParameter(operation, parameter, schema))
  return {
    operationId: index === 0 ? name : `${name}.${index + 1}`,
    tags: [endpoint],
    summary,
    ...(open && { security: [] }),
    ...(inPath.length + inQuery.length > 0 && { parameters: [...inPath, ...inQuery] }),
    ...(bodyTypes[body].length > 0 && { requestBody: requestBody(operation) }),
    responses: responses(operation)
  }
}

function queryParameter(
  { required = [] }: ServedOperation,
  name: string,
  { description, ...schema }: ParameterSchema
): unknown {
  return { name, in: 'query', required: required.includes(name), description, schema }
}

const bodyTypes: Readonly<Record<BodyKind, readonly string[]>> = {
  json: ['application/json'],
  form: ['multipart/form-data'],
  either: ['application/json', 'multipart/form-data'],
  none: [],
  socket: []
}

function requestBody({ body, parameters = {}, required = [] }: ServedOperation): unknown {
  const schema = {
    type: 'object',
    properties: parameters,
    ...(required.length > 0 && { required }),
    additionalProperties: true
  }
  return { required: true, content: Object.fromEntries(bodyTypes[body].map((type) => [type, { schema }])) }
}

const mediaTypes = { json: 'application/json', events: 'text/event-stream', bytes: 'application/octet-stream' } as const

function responses({
  answers = ['json'],
  stream,
  body,
  goesOn,
  status = goesOn ? 202 : 200
}: ServedOperation): unknown {
  const error = { $ref: '#/components/responses/error' }
  if (body === 'socket') return { 101: { description: 'The socket is open.' }, default: error }
  const kinds = new Set([...answers, ...(stream === undefined ? [] : (['events'] as const))])
  const content: Record<string, unknown> = {}
  for (const kind of kinds) if (kind !== 'frames') content[mediaTypes[kind]] = {}
  return { [status]: { description: 'The answer.', content }, default: error }
}
