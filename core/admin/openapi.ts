// Makes an OpenAPI 3.1 document of the table of routes.
import { objectSchema } from '../options/json-schema.ts'
import { isMap } from '../options/schema-check.ts'
import { version } from '../telling/version.ts'
import type { BodyShape, Route } from './api/contract.ts'
import { parameters } from './api/parameters.ts'
import { refusal } from './api/shapes.ts'

/** Describes routes. https://spec.openapis.org/oas/v3.1.0 */
export function documentOf(routes: readonly Route[]): object {
  const paths: Record<string, Record<string, object>> = {}
  // Several segments in the place of a name cannot be said otherwise than as one.
  for (const route of routes)
    (paths[route.path.replace('...}', '}')] ??= {})[route.method.toLowerCase()] = describe(route)
  return {
    openapi: '3.1.0',
    info: { title: 'Sluice admin API', version, summary: 'Inspects and changes a running gateway.' },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'admin.token of gateway.yaml, or an operator’s token.' }
      },
      responses: {
        refusal: {
          description: 'Why it was refused.',
          content: { 'application/json': { schema: { $ref: '#/components/schemas/refusal' } } }
        }
      },
      schemas: { refusal }
    }
  }
}

function describe({ method, path, summary, access, query = [], body, answers }: Route): object {
  const segments = path.split('/').filter((part) => part !== '' && part !== 'admin' && part !== 'v1')
  const words = segments.map((part) => part.replace(/[{}]|\.\.\.|\.json/g, ''))
  const inPath = [...path.matchAll(/\{(\w+)(\.\.\.)?\}/g)].map(([, name, several]) => ({
    name,
    in: 'path',
    required: true,
    description: several ? 'A path of the data listener, with its query.' : `The name of the ${name}.`,
    schema: { type: 'string', minLength: 1 }
  }))
  const inQuery = query.map((name) => ({ name, in: 'query', required: false, ...parameters[name] }))
  return {
    operationId: `${method.toLowerCase()}.${words.join('.')}`,
    tags: [words[0]],
    summary,
    description: whom(access),
    ...(access === 'anyone' && { security: [] }),
    ...(inPath.length + inQuery.length > 0 && { parameters: [...inPath, ...inQuery] }),
    ...(body && { requestBody: { required: true, content: { 'application/json': { schema: bodyOf(body) } } } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, answer]) => [
          status,
          {
            description: Number(status) < 300 ? 'Done.' : 'Not done.',
            content: contentOf(answer)
          }
        ])
      ),
      default: { $ref: '#/components/responses/refusal' }
    }
  }
}

function contentOf(answer: Route['answers'][number]): object {
  if (Array.isArray(answer)) return Object.assign({}, ...answer.map(contentOf)) as object
  return typeof answer === 'string' ? { [answer]: {} } : { 'application/json': { schema: answer } }
}

function whom(access: Route['access']): string {
  if (access === 'anyone') return 'Open to whoever reaches the listener.'
  const roles = {
    see: 'all roles',
    manage: 'the roles owner, operator and tenant_admin',
    operate: 'the roles owner and operator',
    own: 'the role owner'
  }
  const where = access.tenant ? '' : ' For the whole gateway: not for actors of one tenant.'
  return `For ${roles[access.needs]}.${where}`
}

/** The schema that checks a body, without what is only for messages; in a merge patch null takes a member out. */
function bodyOf({ fields, required, patch }: BodyShape): unknown {
  const schema = plain(objectSchema(fields, required)) as Record<string, unknown>
  if (!patch) return schema
  const members = Object.entries(schema['properties'] as object).map(([name, value]) => {
    const { default: _default, ...rest } = value as Record<string, unknown>
    return [name, { anyOf: [rest, { type: 'null' }] }]
  })
  return { ...schema, properties: Object.fromEntries(members) }
}

function plain(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(plain)
  if (!isMap(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).flatMap(([name, value]) => (name === 'patternErrorMessage' ? [] : [[name, plain(value)]]))
  )
}
