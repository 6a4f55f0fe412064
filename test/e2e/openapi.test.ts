// GET /openapi.json: a document that a validator of its own takes, and the table of operations, no more and no less.
import { Validator } from '@seriousme/openapi-schema-validator'
import t from 'tap'
import { operations } from '../../core/operations/index.ts'
import { gateway } from '../kit/gateway.ts'

interface Described {
  operationId: string
  summary: string
  tags: string[]
  parameters?: { name: string; in: string; required?: boolean }[]
  requestBody?: { content: Record<string, { schema: { properties: object; required?: string[] } }> }
  responses: Record<string, unknown>
}

interface Document {
  openapi: string
  paths: Record<string, Record<string, Described>>
}

t.test('GET /openapi.json', async (t) => {
  const local = await gateway(t)
  const reply = await fetch(`${local.url}/openapi.json`)
  t.match(reply.headers.get('content-type'), /^application\/json/)
  const document = (await reply.json()) as Document

  await t.test('is valid, and all that it refers to is there', async (t) => {
    const validator = new Validator()
    const { valid, errors } = await validator.validate(structuredClone(document) as never)
    t.ok(valid, JSON.stringify(errors))
    t.equal(validator.version, '3.1')
    t.doesNotThrow(() => validator.resolveRefs({ specification: structuredClone(document) as never }))
    const broken = await new Validator().validate({ ...document, info: {} } as never)
    t.notOk(broken.valid, 'what is not is seen')
  })

  await t.test('is the table of operations', (t) => {
    const shown = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`)
    )
    const served = operations.flatMap(({ method, paths }) =>
      paths.map((path) => `${method} ${path.replace('...}', '}')}`)
    )
    // The document is an operation, too, and does not describe itself.
    t.same(shown.sort(), [...new Set(served)].filter((one) => one !== 'GET /openapi.json').sort())
    const described = Object.values(document.paths).flatMap((methods) => Object.values(methods))
    t.equal(new Set(described.map(({ operationId }) => operationId)).size, described.length, 'ids are unique')
    for (const operation of operations) {
      for (const [index, path] of operation.paths.entries()) {
        const found = document.paths[path.replace('...}', '}')]?.[operation.method.toLowerCase()]
        if (found?.operationId !== (index === 0 ? operation.name : `${operation.name}.${index + 1}`)) continue
        const inPath = [...path.matchAll(/\{(\w+)/g)].map(([, name]) => name)
        t.same(
          found.parameters?.filter((one) => one.in === 'path').map(({ name }) => name) ?? [],
          inPath,
          `${path}: parameters of the path`
        )
        const names = Object.keys(operation.parameters ?? {})
        const bodies = Object.values(found.requestBody?.content ?? {})
        for (const { schema } of bodies) {
          t.same(Object.keys(schema.properties), names, `${path}: members`)
          t.same(schema.required ?? [], operation.required ?? [], `${path}: what is required`)
        }
        if (bodies.length === 0)
          t.same(
            found.parameters?.filter((one) => one.in === 'query').map(({ name }) => name) ?? [],
            names,
            `${path}: the query`
          )
        t.same(found.tags, [operation.endpoint])
      }
    }
    t.end()
  })

  await t.test('every operation is in it, but those that headers or the query choose over another', (t) => {
    const ids = new Set(
      Object.values(document.paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId))
    )
    const missing = operations.filter(({ name }) => !ids.has(name) && ![...ids].some((id) => id.startsWith(`${name}.`)))
    for (const { name, when } of missing) t.ok(name === 'openapi' || when !== undefined, name)
    t.end()
  })
})
