// The schemas by which the admin API checks bodies, from its own description.
import { get } from '../api.ts'
import type { Schema } from './schema.ts'

interface Document {
  readonly paths: Readonly<
    Record<string, Record<string, { requestBody?: { content: { 'application/json': { schema: Schema } } } }>>
  >
}

let described: Promise<Document> | undefined

/**
 * The schema of a route's body: `bodySchema('POST', '/admin/v1/keys')`. The description is asked for once.
 * @throws ApiError when it cannot be had; Error for a route without a body
 */
export async function bodySchema(method: 'POST' | 'PATCH' | 'PUT', path: string): Promise<Schema> {
  described ??= get<Document>('/admin/openapi.json')
  try {
    const { paths } = await described
    const body = paths[path]?.[method.toLowerCase()]?.requestBody
    if (!body) throw new Error(`${method} ${path} takes no body`)
    return body.content['application/json'].schema
  } catch (error) {
    described = undefined
    throw error
  }
}
