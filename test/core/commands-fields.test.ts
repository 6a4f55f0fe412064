// What the admin API takes can be given by commands too: each field of each body, by the table of routes.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import t from 'tap'
import type { Test } from 'tap'
import type { Route } from '../../core/admin/api/contract.ts'
import { findRoute, routes } from '../../core/admin/routes.ts'
import { isMap } from '../../core/options/schema-check.ts'
import type { OptionSchema } from '../../core/options/schema.ts'
import { sluiceEach } from '../kit/command.ts'

/** A gateway that notes what it is asked, and does nothing. */
async function recorder(t: Test): Promise<{ url: string; asked: { route: Route; body: unknown }[] }> {
  const asked: { route: Route; body: unknown }[] = []
  const server = createServer(async (request, response) => {
    const { method = '', url = '' } = request
    if (url !== '/admin/v1/session') asked.push({ route: findRoute(method, url).route, body: await json(request) })
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(url === '/admin/v1/session' ? { id: 'me', role: 'owner', tenant: null } : noted))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

/** Enough of an answer for all commands. */
const noted = { name: 'n', tenant: 'a', secrets: [], tokens: [{}], results: [], changes: [], to: '', switched: {} }

const all = (...more: string[]): string[] =>
  '--models a,b --endpoints chat --rps 1 --rpm 2 --tpm 3 --concurrency 4 --expires 2099-01-01 --tags team=x --enabled no'
    .split(' ')
    .concat('--model-limits', 'gpt-* rps=1 rpm=2 tpm=3 concurrency=4')
    .concat('--budget', '5/day,100/month at 50% 80%', more)
const foreign = ['--foreign-references', 'pass']

const lines: string[][] = [
  ['keys', 'create', '--tenant', 'a', '--project', 'b', '--member', 'c', '--name', 'd', ...all()],
  ['keys', 'change', 'd', ...all()],
  ['keys', 'rotate', 'd', '--overlap', '1h', '--rotation', 'may'],
  ['tenants', 'create', 'a', ...all(...foreign)],
  ['tenants', 'change', 'a', ...all(...foreign)],
  ['projects', 'create', 'a/b', ...all()],
  ['projects', 'change', 'a/b', ...all()],
  ['members', 'create', 'a/b/c', ...all()],
  ['members', 'change', 'a/b/c', ...all()],
  ['operators', 'create', 'o', '--role', 'viewer', '--tenant', 'a', '--enabled', 'no', '--lifetime', '30d'],
  ['operators', 'change', 'o', '--role', 'viewer', '--tenant', 'a', '--enabled', 'yes'],
  ['operators', 'rotate', 'o', '--overlap', '1h', '--lifetime', '30d', '--rotation', 'may'],
  ['channels', 'switch', 'x', 'off'],
  ['channels', 'switch', 'x', 'drain'],
  ['channels', 'test', 'x', 'gpt-5', '--endpoint', 'chat'],
  ['rollback', '1f0a9c', '--force']
]

/**
 * A request to explain is given as a file, and commands read and write the files of the configuration by themselves.
 * Prices are compared, and people sign in, where there is a page.
 */
const withoutCommand: ReadonlySet<string> = new Set([
  '/admin/v1/explain',
  '/admin/v1/config/check',
  '/admin/v1/config/file',
  '/admin/v1/what-if',
  '/admin/v1/session'
])

/** The fields of an object of a schema, as paths; `*` stands for a name that is free. */
function fieldsOf(schemas: Readonly<Record<string, OptionSchema>>, at = ''): string[] {
  return Object.entries(schemas).flatMap(([name, schema]) => fieldOf(schema, at + name))
}

function fieldOf(schema: OptionSchema, path: string): string[] {
  if (schema.type !== 'object') return [path]
  return 'properties' in schema && schema.properties
    ? fieldsOf(schema.properties, `${path}.`)
    : fieldOf((schema as { additionalProperties: OptionSchema }).additionalProperties, `${path}.*`)
}

/** The fields that a body has, as paths of the same kind. */
function givenIn(schema: OptionSchema, value: unknown, path: string): string[] {
  if (Array.isArray(value) && schema.type === 'object') return value.flatMap((one) => givenIn(schema, one, path))
  if (schema.type !== 'object' || !isMap(value)) return [path]
  return Object.entries(value).flatMap(([name, item]) =>
    'properties' in schema && schema.properties
      ? givenIn(schema.properties[name] ?? { type: 'string', description: '' }, item, `${path}.${name}`)
      : givenIn((schema as { additionalProperties: OptionSchema }).additionalProperties, item, `${path}.*`)
  )
}

t.test('every field that the admin API takes can be given by a command', async (t) => {
  const { url, asked } = await recorder(t)
  const ended = await sluiceEach(
    lines.map((line) => [...line, '--admin', url]),
    {}
  )
  for (const [index, { err }] of ended.entries()) t.notMatch(err, /option|must be/, lines[index]!.join(' '))
  for (const route of routes) {
    if (!route.body || withoutCommand.has(route.path)) continue
    const { fields } = route.body
    const root: OptionSchema = { type: 'object', description: '', properties: fields }
    const bodies = asked.filter((one) => one.route === route).map(({ body }) => body)
    const given = new Set(bodies.flatMap((body) => givenIn(root, body, '').map((path) => path.slice(1))))
    t.same([...given].sort(), fieldsOf(fields).sort(), `${route.method} ${route.path}`)
  }
  const [made] = asked
  t.match(made!.body, {
    limits: { rps: 1, models: { 'gpt-*': { rps: 1, rpm: 2, tpm: 3, concurrency: 4 } } },
    budget: [
      { usd: '5', per: 'day', alerts: undefined },
      { usd: '100', per: 'month', alerts: [50, 80] }
    ],
    enabled: false
  })
})

t.test('limits of models are read by pattern, and what is wrong is refused', async (t) => {
  const { url, asked } = await recorder(t)
  const good: [text: string, limits: unknown][] = [
    ['gpt-* rpm=60 tpm=10000, o3 rps=1', { 'gpt-*': { rpm: 60, tpm: 10_000 }, o3: { rps: 1 } }],
    ['  a,b=c:free   rpm=1 ', { 'a,b=c:free': { rpm: 1 } }],
    ['gpt-* none, __proto__ rps=2', JSON.parse('{"gpt-*": null, "__proto__": {"rps": 2}}')],
    ['rpm=5 rpm=6', { 'rpm=5': { rpm: 6 } }],
    ['none', null]
  ]
  const bad = [
    'gpt-*',
    'gpt-* rpm=x',
    'a rpm=1 rpm=2',
    'a rpm=1, a rps=1',
    'a rpm=1,',
    'a rpm=1 b',
    'a none rpm=1',
    'a x=1'
  ]
  const ended = await sluiceEach(
    [...good.map(([text]) => text), ...bad].map((text) => [
      'keys',
      'change',
      'k',
      '--model-limits',
      text,
      '--admin',
      url
    ])
  )
  t.strictSame(
    asked.map(({ body }) => JSON.stringify(body)),
    good.map(([, models]) => JSON.stringify({ limits: { models } }))
  )
  for (const [index, text] of bad.entries())
    t.match(ended[good.length + index], { code: 2, err: /--model-limits is .*: it must be like "gpt-\* rpm=60/ }, text)
})
