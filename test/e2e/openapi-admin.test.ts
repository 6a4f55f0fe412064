// GET /admin/openapi.json: a document that a validator of its own takes, the table of routes, no more and no less, and
// that the answers of each route are what it says.
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import type { Test } from 'tap'
import { routes } from '../../core/admin/routes.ts'
import { ask } from '../kit/client.ts'
import type { ReceivedReply } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

interface Described {
  operationId: string
  summary: string
  description: string
  parameters?: { name: string; in: string; description: string }[]
  requestBody?: { content: Record<string, { schema: object }> }
  responses: Record<string, { content?: Record<string, { schema?: object }> }>
}

interface Document {
  paths: Record<string, Record<string, Described>>
  components: { schemas: { refusal: object } }
}

const documentOf = async (local: LocalGateway): Promise<Document> => local.admin('/admin/openapi.json')

// Formats are for people: what they stand for is checked where it is read.
const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })

/** Why a value is not what a schema says; empty when it is. */
function faults(schema: object, value: unknown): string {
  ajv.validate(schema, value)
  return ajv.errorsText(ajv.errors) === 'No errors' ? '' : ajv.errorsText(ajv.errors)
}

/** A path of the table as the document has it, which knows no name for several segments. */
const shownAs = (path: string): string => path.replace('...}', '}')

t.test('the document is valid, and is the table of routes', async (t) => {
  const document = await documentOf(await gateway(t))
  const validator = new Validator()
  const { valid, errors } = await validator.validate(structuredClone(document) as never)
  t.ok(valid, JSON.stringify(errors))
  t.equal(validator.version, '3.1')
  t.doesNotThrow(() => validator.resolveRefs({ specification: structuredClone(document) as never }))
  const shown = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`)
  )
  t.same(shown.sort(), routes.map(({ method, path }) => `${method} ${shownAs(path)}`).sort())
  const all = Object.values(document.paths).flatMap((methods) => Object.values(methods))
  t.equal(new Set(all.map(({ operationId }) => operationId)).size, all.length, 'ids are unique')
  for (const { method, path, query = [], body, answers } of routes) {
    const found = document.paths[shownAs(path)]![method.toLowerCase()]!
    const inPath = [...shownAs(path).matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
    const named = (found.parameters ?? []).map((one) => one.name)
    t.same(named, [...inPath, ...query], `${method} ${path}: parameters`)
    t.ok((found.parameters ?? []).every(({ description }) => description.length > 5))
    t.ok(found.summary.length > 5 && /^(For|Open)/.test(found.description))
    t.equal(found.requestBody !== undefined, body !== undefined, `${method} ${path}: body`)
    t.same(Object.keys(found.responses), [...Object.keys(answers), 'default'])
  }
})

const typed = { 'x-sluice-secret': testKey }
const prompt = { model: 'demo', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] }

/** Calls that together get each answer of each route at least once: method, path, body. */
const calls: readonly (readonly [method: string, path: string, body?: unknown, headers?: Record<string, string>])[] = [
  [
    'POST',
    '/admin/v1/tenants',
    { name: 'late', budget: { usd: 5, per: 'day', alerts: [50, 80] }, foreign_references: 'pass' }
  ],
  ['PATCH', '/admin/v1/tenants/late', { budget: null, tags: { a: 'b' }, limits: { rpm: 5 } }],
  ['GET', '/admin/v1/tenants/late'],
  ['POST', '/admin/v1/projects', { tenant: 'late', name: 'web' }],
  ['PATCH', '/admin/v1/projects/late/web', { expires: '2999-01-01' }],
  ['GET', '/admin/v1/projects/late/web'],
  ['POST', '/admin/v1/members', { tenant: 'late', project: 'web', name: 'eve' }],
  ['PATCH', '/admin/v1/members/late/web/eve', { models: ['demo'] }],
  ['GET', '/admin/v1/members/late/web/eve'],
  ['GET', '/admin/v1/tenants'],
  ['GET', '/admin/v1/projects'],
  ['GET', '/admin/v1/members'],
  ['POST', '/admin/v1/keys', { tenant: 'late', project: 'web', name: 'ci', budget: { usd: 1, per: 'month' } }],
  ['PATCH', '/admin/v1/keys/ci', { tags: { team: 'x' } }],
  ['POST', '/admin/v1/keys/ci/rotate', { overlap: '1h' }],
  ['GET', '/admin/v1/keys/ci'],
  ['GET', '/admin/v1/keys/ci/models'],
  ['GET', '/admin/v1/keys'],
  ['DELETE', '/admin/v1/keys/ci'],
  ['DELETE', '/admin/v1/members/late/web/eve'],
  ['DELETE', '/admin/v1/projects/late/web'],
  ['DELETE', '/admin/v1/tenants/late'],
  ['POST', '/admin/v1/operators', { name: 'carol', role: 'viewer', tenant: 'acme' }],
  ['PATCH', '/admin/v1/operators/carol', { tenant: null }],
  ['POST', '/admin/v1/operators/carol/tokens', { overlap: '1h', lifetime: '30d' }],
  ['GET', '/admin/v1/operators/carol'],
  ['GET', '/admin/v1/operators'],
  ['DELETE', '/admin/v1/operators/carol'],
  ['GET', '/admin/v1/requests'],
  ['GET', '/admin/v1/requests?limit=1'],
  ['GET', '/admin/v1/balances'],
  ['GET', '/admin/v1/requests/totals'],
  ['GET', '/admin/v1/requests/totals?model=demo&parts=5'],
  ['GET', '/admin/v1/requests/filters'],
  ['GET', '/admin/v1/requests/under-way'],
  ['GET', '/admin/v1/requests/ID'],
  ['GET', '/admin/v1/requests/ID/messages'],
  ['GET', '/admin/v1/workers'],
  ['GET', '/admin/v1/chain'],
  ['GET', '/admin/v1/spend'],
  ['GET', '/admin/v1/spend?by=tenant,key,channel,tag,day,tag:team'],
  ['GET', '/admin/v1/export/requests'],
  ['GET', '/admin/v1/export/spend?by=day'],
  ['GET', '/admin/v1/export/audit?outcome=done'],
  ['GET', '/admin/v1/channels'],
  ['GET', '/admin/v1/channels/demo'],
  ['PATCH', '/admin/v1/channels/demo', { drain: true }],
  ['PATCH', '/admin/v1/channels/demo', { drain: null }],
  ['POST', '/admin/v1/channels/demo/test', { model: 'demo' }],
  ['GET', '/admin/v1/capabilities'],
  ['GET', '/admin/v1/models'],
  ['GET', '/admin/v1/models/demo'],
  ['POST', '/admin/v1/what-if', { model: 'demo', since: '2026-11-01' }],
  ['GET', '/admin/v1/config'],
  ['GET', '/admin/v1/config/diff'],
  ['POST', '/admin/v1/reload'],
  ['GET', '/admin/v1/config'],
  ['GET', '/admin/v1/config/history'],
  ['GET', '/admin/v1/config/history/HASH'],
  ['POST', '/admin/v1/config/rollback', { force: false }],
  ['GET', '/admin/v1/config/schema'],
  ['GET', '/admin/v1/config/file'],
  ['POST', '/admin/v1/config/check', { files: [{ name: 'gateway.yaml', text: 'models: { broken: 1 }' }] }],
  ['POST', '/admin/v1/ledger/verify'],
  ['DELETE', '/admin/v1/ledger/verify'],
  ['GET', '/admin/v1/ledger/verify'],
  ['GET', '/admin/v1/config/diff'],
  ['POST', '/admin/v1/explain', { key: 'test', model: 'demo' }],
  ['POST', '/admin/v1/explain', { key: 'test', path: '/v1/models', headers: { accept: '*/*' } }],
  ['POST', '/admin/v1/explain', { key: 'test', model: 'none-such', body: { messages: [] } }],
  ['GET', '/admin/v1/playground/keys/test/v1/models'],
  ['POST', '/admin/v1/playground/keys/test/v1/responses', { model: 'demo', input: 'Hi' }],
  ['GET', '/admin/v1/playground/secret/v1/models', undefined, typed],
  ['POST', '/admin/v1/playground/secret/v1/messages', prompt, typed],
  ['GET', '/admin/v1/audit'],
  ['GET', '/admin/v1/live?since=0'],
  ['GET', '/admin/v1/troubles'],
  ['GET', '/admin/v1/overview'],
  ['GET', '/admin/openapi.json'],
  ['GET', '/admin/sign-in'],
  ['GET', '/admin/v1/session'],
  ['GET', '/admin/v1/sessions'],
  ['POST', '/admin/logout'],
  ['GET', '/healthz'],
  ['GET', '/livez'],
  ['GET', '/readyz'],
  ['GET', '/metrics']
]

/**
 * Those that need a file that may be written, which a test below has, a provider, which the test of sign-ins has, or a
 * gateway in a process of its own, which that of hand-overs has.
 */
const elsewhere = new Set([
  'PUT /admin/v1/config/file',
  'POST /admin/v1/upgrade',
  'GET /admin/login',
  'GET /admin/callback',
  'POST /admin/v1/session',
  'DELETE /admin/v1/sessions/{session}'
])

/** The description of what a call got. */
function find({ paths }: Document, method: string, path: string): [pattern: string, described: Described] {
  const plain = path.split('?', 1)[0]!
  const fits = (pattern: string): boolean =>
    new RegExp(`^${pattern.replace('{path}', '.+').replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(plain)
  const [pattern, methods] = Object.entries(paths).find(
    ([one, described]) => fits(one) && method.toLowerCase() in described
  )!
  return [pattern, methods[method.toLowerCase()]!]
}

const asker =
  (t: Test, { adminUrl }: LocalGateway) =>
  (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<ReceivedReply> =>
    ask(t, adminUrl, { method, path, headers, ...(body !== undefined && { body }) })

t.test('each answer of each route is what the document says, and each body is what it asks for', async (t) => {
  const local = await gateway(t)
  const admin = asker(t, local)
  const document = await documentOf(local)
  await local.chat()
  await local.chat({ model: 'none-such' })
  await eventually(async () => (await local.admin('/admin/v1/requests')).data.length === 2)
  const { hash } = await local.admin('/admin/v1/config')
  const [{ request_id }] = (await local.admin('/admin/v1/requests')).data
  local.configure({ tenants: { acme: {}, fresh: {} } })
  await local.gateway.reload('SIGHUP')
  const seen = new Set<string>()
  for (const [method, written, body, headers] of calls) {
    const path = written.replace('HASH', hash).replace('ID', request_id)
    const [pattern, described] = find(document, method, path)
    const reply = await admin(method, path, body, headers)
    const content = described.responses[reply.status]?.content
    if (!t.ok(reply.status < 300 && content, `${method} ${path}: ${reply.status} ${reply.text}`)) continue
    seen.add(`${method} ${pattern}`)
    const schema = content!['application/json']?.schema
    if (schema) t.equal(faults(schema, reply.json()), '', `${method} ${path}: ${reply.text.slice(0, 2000)}`)
    else t.match(reply.headers['content-type'], new RegExp(Object.keys(content!)[0]!.replaceAll('*', '.*')))
    const asked = described.requestBody?.content['application/json']?.schema
    if (asked) t.equal(faults(asked, body), '', `${method} ${path}: the body`)
  }
  const sampled = routes.map(({ method, path }) => `${method} ${shownAs(path)}`).filter((one) => !elsewhere.has(one))
  t.same([...seen].sort(), sampled.sort(), 'no route lacks a sample')
  for (const [method, path, body] of [
    ['POST', '/admin/v1/keys', { tenant: 'acme', colour: 'red' }],
    ['GET', '/admin/v1/keys/none'],
    ['GET', '/admin/v1/audit?limit=0'],
    ['DELETE', '/admin/v1/config']
  ] as const) {
    const reply = await admin(method, path, body)
    t.ok(reply.status >= 400)
    t.equal(faults(document.components.schemas.refusal, reply.json()), '', `${method} ${path}`)
  }
  const asked = find(document, 'POST', '/admin/v1/keys')[1].requestBody!.content['application/json']!.schema
  t.not(faults(asked, { tenant: 'acme', colour: 'red' }), '', 'what is refused does not conform')
  t.not(faults(asked, { tenant: 'acme', limits: { rpm: 0 } }), '')
})

t.test('a reload that is refused and a gateway that stops answer what the document says', async (t) => {
  const local = await gateway(t)
  const document = await documentOf(local)
  local.configure({ models: { broken: 1 } })
  const reply = await asker(t, local)('POST', '/admin/v1/reload')
  t.equal(reply.status, 422)
  const [, described] = find(document, 'POST', '/admin/v1/reload')
  t.equal(faults(described.responses[422]!.content!['application/json']!.schema!, reply.json()), '')
})

t.test('files that are written, and are not, are answered as the document says', async (t) => {
  const keys = [{ name: 'test', key: '${KEY}', tenant: 'acme' }]
  const local = await gateway(t, { admin: { write_config: true }, keys }, { env: { ...process.env, KEY: testKey } })
  const document = await documentOf(local)
  const [, described] = find(document, 'PUT', '/admin/v1/config/file')
  const { hash, files } = await local.admin('/admin/v1/config/file')
  const [{ name, text }] = files
  for (const [more, status] of [
    ['x-note: 1\n', 200],
    ['colour: red\n', 422]
  ] as const) {
    const now = status === 200 ? hash : (await local.admin('/admin/v1/config/file')).hash
    const body = { hash: now, files: [{ name, text: text + more }] }
    const reply = await asker(t, local)('PUT', '/admin/v1/config/file', body)
    t.equal(reply.status, status, reply.text)
    t.equal(faults(described.responses[status]!.content!['application/json']!.schema!, reply.json()), '')
    t.equal(faults(described.requestBody!.content['application/json']!.schema, body), '')
  }
})

t.test('what a verification found is told as the document says', async (t) => {
  const local = await gateway(t)
  const document = await documentOf(local)
  await local.chat()
  await asker(t, local)('POST', '/admin/v1/ledger/verify')
  const state = () => local.admin('/admin/v1/ledger/verify')
  await eventually(async () => (await state()).results.length === 1, 120_000)
  const [, described] = find(document, 'GET', '/admin/v1/ledger/verify')
  t.equal(faults(described.responses[200]!.content!['application/json']!.schema!, await state()), '')
})
