// The list of models in three shapes: whom it is for, a page at a time, and that nobody sees more than the key may use.
import t from 'tap'
import type { Test } from 'tap'
import { gateway, testKey } from '../../kit/gateway.ts'
import type { LocalGateway } from '../../kit/gateway.ts'

const names = ['demo', 'org/name:free', 'old', 'a', 'b']
const anthropic = { 'anthropic-version': '2023-06-01' }

async function open(t: Test): Promise<LocalGateway> {
  return gateway(t, {
    channels: {
      demo: { protocol: 'simulator', models: Object.fromEntries([...names, 'secret'].map((name) => [name, name])) },
      native: {
        protocol: 'gemini',
        base_url: 'https://gemini.example/v1beta',
        credential: 'x',
        endpoints: ['chat', 'embeddings'],
        models: { b: 'b' }
      }
    },
    models: {
      ...Object.fromEntries([...names, 'secret'].map((name) => [name, { price: 'free' }])),
      demo: {
        price: { input: 1 },
        owned_by: 'me',
        created: '2026-01-02',
        context_window: 1000,
        max_output_tokens: 100
      },
      old: { price: 'free', deprecated: { since: '2026-09-01', sunset: '2027-03-01', replacement: 'org/name:free' } }
    },
    tenants: {
      acme: { models: ['*'], projects: { web: { members: { alice: { models: ['demo', 'old', 'secret'] } } } } },
      narrow: { models: ['demo', 'a'] }
    },
    keys: [
      { name: 'all', key: testKey, tenant: 'acme', models: names },
      {
        name: 'member',
        key: 'sk-member',
        tenant: 'acme',
        project: 'web',
        member: 'alice',
        models: ['demo', 'old', 'b']
      },
      { name: 'narrow', key: 'sk-narrow', tenant: 'narrow' }
    ]
  })
}

const get = async (local: LocalGateway, path: string, headers: Record<string, string> = {}): Promise<any> =>
  (await local.ask({ path, headers })).json()

t.test('the headers and the path say in whose words', async (t) => {
  const local = await open(t)
  t.match(await get(local, '/v1/models/demo'), {
    id: 'demo',
    object: 'model',
    created: 1767312000,
    owned_by: 'me',
    context_window: 1000
  })
  t.same(await get(local, '/v1/models/demo', anthropic), {
    type: 'model',
    id: 'demo',
    display_name: 'demo',
    created_at: '2026-01-02T00:00:00Z',
    lifecycle: 'active',
    deprecated_at: null,
    retires_at: null,
    line: null,
    max_input_tokens: 1000,
    max_tokens: 100,
    capabilities: null
  })
  const gemini = {
    name: 'models/demo',
    displayName: 'demo',
    inputTokenLimit: 1000,
    outputTokenLimit: 100,
    supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'embedContent', 'batchEmbedContents']
  }
  t.same(await get(local, '/v1beta/models/demo'), gemini)
  t.same(await get(local, '/v1/models/demo', { 'x-goog-api-client': 'x' }), gemini)
  t.same(await get(local, '/v1/models/demo', { authorization: '', 'x-goog-api-key': testKey }), gemini)
  t.same(await get(local, `/v1/models/demo?key=${testKey}`, { authorization: '' }), gemini)
  t.same((await get(local, '/v1beta/models/b')).supportedGenerationMethods, [
    'generateContent',
    'streamGenerateContent',
    'countTokens',
    'embedContent',
    'batchEmbedContents'
  ])

  t.match(await get(local, '/v1/models'), { object: 'list', data: names.map((id) => ({ id })) })
  t.match(await get(local, '/v1/models', anthropic), {
    data: names.map((id) => ({ id })),
    has_more: false,
    first_id: 'demo',
    last_id: 'b'
  })
  t.match(await get(local, '/v1beta/models'), {
    models: names.map((id) => ({ name: `models/${id}` })),
    nextPageToken: undefined
  })
  t.match(await get(local, `/v1/models?key=${testKey}`, { authorization: '' }), { models: [{ name: 'models/demo' }] })
})

t.test(
  'names with slashes and colons are found in either spelling, and those of another version of the path too',
  async (t) => {
    const local = await open(t)
    for (const name of ['org/name:free', 'org%2Fname%3Afree']) {
      t.match(await get(local, `/v1/models/${name}`), { id: 'org/name:free' })
      t.match(await get(local, `/v1/models/${name}`, anthropic), { id: 'org/name:free' })
      t.match(await get(local, `/v1beta/models/${name}`), { name: 'models/org/name:free' })
    }
  }
)

t.test('a deprecated model says so in every shape, and in the headers', async (t) => {
  const local = await open(t)
  const retiring = {
    deprecation: '@1788220800',
    sunset: 'Mon, 01 Mar 2027 00:00:00 GMT',
    link: '</v1/models/org%2Fname%3Afree>; rel="successor-version"'
  }
  const reply = await local.ask({ path: '/v1/models/old' })
  t.match(reply.headers, retiring)
  t.match(reply.json(), { deprecation: { date: '2026-09-01', sunset: '2027-03-01', replacement: 'org/name:free' } })
  t.match((await local.ask({ path: '/v1beta/models/old' })).headers, retiring)
  t.match(await get(local, '/v1/models/old', anthropic), {
    lifecycle: 'deprecated',
    deprecated_at: '2026-09-01T00:00:00Z',
    retires_at: '2027-03-01T00:00:00Z'
  })
  t.notOk('deprecation' in (await local.ask({ path: '/v1/models/demo' })).headers)
})

t.test(
  'tenant, member and key each leave models out, of lists and of details, and in no way tell them from unknown ones',
  async (t) => {
    const local = await open(t)
    const seen = async (key: string): Promise<string[]> => {
      const headers = { authorization: `Bearer ${key}` }
      const listed = [
        (await get(local, '/v1/models', headers)).data.map(({ id }: { id: string }) => id),
        (await get(local, '/v1/models', { ...headers, ...anthropic })).data.map(({ id }: { id: string }) => id),
        (await get(local, '/v1beta/models', headers)).models.map(({ name }: { name: string }) =>
          name.slice('models/'.length)
        )
      ]
      t.same(listed[1], listed[0])
      t.same(listed[2], listed[0])
      return listed[0]
    }
    t.same(await seen(testKey), names)
    t.same(await seen('sk-member'), ['demo', 'old'])
    t.same(await seen('sk-narrow'), ['demo', 'a'])
    for (const [path, headers] of [
      ['/v1/models/', {}],
      ['/v1/models/', anthropic],
      ['/v1beta/models/', {}]
    ] as const) {
      const told = async (name: string): Promise<string> => {
        const reply = await local.ask({ path: path + name, headers: { ...headers } })
        t.equal(reply.status, 404)
        t.notOk('deprecation' in reply.headers)
        return reply.text.replaceAll(name, 'NAME')
      }
      t.equal(await told('secret'), await told('nobody'))
    }
    t.match(await get(local, '/v1/models/nobody'), { error: { code: 'model_not_found', type: 'not_found_error' } })
    t.match(await get(local, '/v1/models/nobody', anthropic), { type: 'error', error: { type: 'not_found_error' } })
    t.match(await get(local, '/v1beta/models/nobody'), { error: { code: 404, status: 'NOT_FOUND' } })
  }
)

t.test('pages follow each other without gap, to and fro', async (t) => {
  const local = await open(t)
  const walk = async (
    step: (page: any) => string | undefined,
    path: string,
    headers: Record<string, string> = {},
    first = ''
  ): Promise<string[][]> => {
    const pages: string[][] = []
    for (let query: string | undefined = first; query !== undefined && pages.length < 9;) {
      const page: any = await get(local, `${path}${query}`, headers)
      pages.push((page.data ?? page.models).map((model: any) => model.id ?? model.name))
      query = step(page)
    }
    return pages
  }
  const forth = await walk(
    ({ has_more: more, last_id: last }) => (more ? `&after_id=${encodeURIComponent(last)}` : undefined),
    '/v1/models?limit=2',
    anthropic
  )
  t.same(forth, [['demo', 'org/name:free'], ['old', 'a'], ['b']])
  const back = await walk(
    ({ has_more: more, first_id: first }) => (more ? `&before_id=${encodeURIComponent(first)}` : undefined),
    '/v1/models?limit=2',
    anthropic,
    '&before_id=b'
  )
  t.same(back, [
    ['old', 'a'],
    ['demo', 'org/name:free']
  ])
  const tokens = await walk(
    ({ nextPageToken: token }) => (token === undefined ? undefined : `&pageToken=${token}`),
    '/v1beta/models?pageSize=3'
  )
  t.same(tokens, [
    ['models/demo', 'models/org/name:free', 'models/old'],
    ['models/a', 'models/b']
  ])
  t.match(await get(local, '/v1/models?limit=5', anthropic), { has_more: false })
  t.match(await get(local, '/v1beta/models?pageSize=5000&pageToken='), {
    models: { length: 5 },
    nextPageToken: undefined
  })
})

t.test('a page that cannot be is refused in the words of its protocol', async (t) => {
  const local = await open(t)
  for (const query of [
    'limit=0',
    'limit=x',
    'limit=-1',
    'limit=1.5',
    'after_id=nobody',
    'after_id=secret',
    'before_id=nobody'
  ]) {
    t.match(
      await get(local, `/v1/models?${query}`, anthropic),
      { type: 'error', error: { type: 'invalid_request_error' } },
      query
    )
  }
  for (const query of ['pageSize=0', 'pageSize=x', 'pageToken=bm9ib2R5', 'pageToken=c2VjcmV0', 'pageToken=%FF']) {
    t.match(await get(local, `/v1beta/models?${query}`), { error: { code: 400, status: 'INVALID_ARGUMENT' } }, query)
  }
})
