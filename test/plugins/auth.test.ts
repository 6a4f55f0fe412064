// Who is let in: credentials in every place and spelling, scopes of keys, and models that stay invisible.
import { Readable } from 'node:stream'
import t from 'tap'
import { caller } from '../../core/contract/slots.ts'
import { presentedKey } from '../../plugins/auth/credential.ts'
import { definePlugin } from '../../core/contract/contract.ts'
import type { GatewayError } from '../../core/contract/contract.ts'
import auth from '../../plugins/auth/index.ts'
import { pluginContract } from '../kit/contract.ts'
import { digestOf } from '../kit/documents.ts'
import { chat } from '../../core/operations/chat.ts'
import { Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, defaultChain, key, Workbench } from '../kit/workbench.ts'
import type { Answer } from '../kit/workbench.ts'

pluginContract(t, auth, { refuses: [[{ keys: [] }, /unknown key/]] })

const day = 86_400_000
const date = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

async function open(t: Parameters<typeof Workbench.open>[0]): Promise<Workbench> {
  const upstream = (await Upstream.start(t)).json(chatAnswer())
  for (let i = 0; i < 30; i++) upstream.json(chatAnswer())
  const price = { input: 1, output: 1 }
  return Workbench.open(t, {
    channels: { a: channelTo(upstream, { models: { demo: 'demo', hidden: 'hidden', old: 'old' } }) },
    models: {
      demo: { price },
      hidden: { price },
      old: { price, deprecated: { since: '2026-09-01', sunset: '2027-03-01', replacement: 'family/demo 2' } }
    },
    tenants: { acme: { models: ['demo', 'old', 'gone'] }, other: {} },
    keys: [
      key({}),
      key({ name: 'other', key: 'sk-other-key', tenant: 'other' }),
      key({ name: 'late', key: 'sk-late-key', expires: date(Date.now() - day) }),
      key({ name: 'soon', key: 'sk-soon-key', expires: date(Date.now() + 2 * day) }),
      key({ name: 'lists', key: 'sk-lists-key', endpoints: ['models'] })
    ]
  })
}

function code({ body }: Answer): string | undefined {
  return (JSON.parse(body) as { error?: { code: string } }).error?.code
}

t.test('a key is found in every place and spelling that clients use', async (t) => {
  const bench = await open(t)
  const spellings: Record<string, string | string[]>[] = [
    { authorization: 'Bearer sk-test-key' },
    { authorization: 'bearer sk-test-key' },
    { authorization: 'BEARER   sk-test-key  ' },
    { authorization: 'Bearer\tsk-test-key' },
    { authorization: '', 'x-api-key': 'sk-test-key' },
    { authorization: 'Bearer ', 'x-api-key': 'sk-test-key' },
    { authorization: 'Basic dXNlcjpwYXNz', 'x-api-key': 'sk-test-key' },
    { authorization: '', 'x-goog-api-key': ' sk-test-key ' },
    { authorization: 'Bearer sk-test-key', 'x-api-key': 'sk-test-key', 'x-goog-api-key': 'sk-test-key' },
    { authorization: 'Bearer sk-test-key', 'x-api-key': '' },
    { authorization: ['Bearer sk-test-key', 'Bearer sk-test-key'] },
    { authorization: '', 'x-api-key': ['sk-test-key', '', '\tsk-test-key '] }
  ]
  for (const headers of spellings) {
    const answer = await bench.send({ headers })
    t.equal(answer.status, 200, JSON.stringify(headers))
    t.equal(answer.exchange.get(caller).key, 'test-key')
  }
})

t.test('the query carries a key only on the paths of the protocol that puts it there', async (t) => {
  for (const path of [
    '/v1beta/models/demo:generateContent',
    '/v1beta/models',
    '/v1/models/demo:streamGenerateContent',
    '/v1/models',
    '/v1/models/org/name'
  ]) {
    const request = {
      method: 'POST',
      path,
      query: 'alt=sse&key=sk-test-key',
      headers: {},
      operation: chat,
      parameters: {},
      remoteAddress: ''
    }
    t.equal(presentedKey(request), 'sk-test-key', path)
    t.throws(() => presentedKey({ ...request, headers: { 'x-goog-api-key': 'sk-other-key' } }), {
      code: 'conflicting_credentials'
    })
    t.throws(() => presentedKey({ ...request, query: 'key=' }), { code: 'missing_api_key' })
  }
  const bench = await open(t)
  const answer = await bench.send({ target: '/v1/chat/completions?key=sk-test-key', headers: { authorization: '' } })
  t.equal(answer.status, 401)
  t.equal(code(answer), 'missing_api_key')
})

t.test('blanks around a key are none of it, and any in it are', (t) => {
  const of = (value: string): string =>
    presentedKey({ headers: { 'x-api-key': value }, path: '/v1/models', query: '', operation: chat } as never)
  for (const value of [' sk-a', 'sk-a ', '\tsk-a', 'sk-a\t ', ' sk-a '])
    t.equal(of(value), 'sk-a', JSON.stringify(value))
  for (const value of ['sk a', 'sk-a\u00a0', '\u2003sk-a']) t.equal(of(value), value)
  t.end()
})

t.test('two different keys are refused wherever they stand, whichever of them is valid', async (t) => {
  const bench = await open(t)
  const conflicts: Record<string, string | string[]>[] = [
    { 'x-api-key': 'sk-other-key' },
    { 'x-api-key': 'sk-unknown' },
    { authorization: 'Bearer sk-unknown', 'x-api-key': 'sk-test-key' },
    { 'x-goog-api-key': 'sk-other-key' },
    { authorization: ['Bearer sk-test-key', 'Bearer sk-other-key'] },
    { authorization: '', 'x-api-key': ['sk-test-key', 'sk-other-key'] }
  ]
  for (const headers of conflicts) {
    const answer = await bench.send({ headers })
    t.equal(answer.status, 401, JSON.stringify(headers))
    t.equal(code(answer), 'conflicting_credentials')
    t.equal(answer.exchange.find(caller), undefined)
  }
})

t.test('a valid key with anything beside it is not valid', async (t) => {
  const bench = await open(t)
  const spoilt = [
    ...[
      ',',
      ',x',
      ', Bearer sk-test-key',
      ', Bearer sk-other-key',
      ' x',
      ';',
      '\u00a0',
      '\u0085',
      '\x0b',
      '\x0c',
      '=',
      '"'
    ].map((more) => `sk-test-key${more}`),
    ...[',', '\u00a0', '\x0c', '"'].map((more) => `${more}sk-test-key`)
  ]
  for (const key of spoilt) {
    for (const headers of [
      { authorization: `Bearer ${key}` },
      { authorization: '', 'x-api-key': key },
      { authorization: '', 'x-goog-api-key': key }
    ]) {
      const answer = await bench.send({ headers })
      t.match([answer.status, code(answer)], [401, 'invalid_api_key'], JSON.stringify(headers))
    }
  }
  const scheme = await bench.send({ headers: { authorization: 'Bearer\u00a0sk-test-key' } })
  t.match([scheme.status, code(scheme)], [401, 'missing_api_key'])
  const query = {
    method: 'POST',
    path: '/v1beta/models/demo:generateContent',
    query: 'key=sk-test-key%C2%A0',
    headers: {},
    operation: chat,
    parameters: {},
    remoteAddress: ''
  }
  t.equal(presentedKey(query), 'sk-test-key\u00a0', "found as it was given, and so it is nobody's")
})

t.test('a wrong key gets the same words whatever is wrong with it, and never sees itself again', async (t) => {
  const bench = await open(t)
  const bodies = new Set<string>()
  for (const wrong of ['sk-wrong', 'sk-test-keyy', 'sk-test-ke', "' OR 1=1 --", '\u00e9\u00e8', 'x'.repeat(8000)]) {
    const answer = await bench.send({ headers: { authorization: `Bearer ${wrong}` } })
    t.equal(answer.status, 401)
    t.equal(code(answer), 'invalid_api_key')
    t.notOk(answer.body.includes(wrong))
    bodies.add(answer.body)
  }
  t.equal(bodies.size, 1)
  const none = await bench.send({ headers: { authorization: '' } })
  t.equal(none.status, 401)
  t.equal(code(none), 'missing_api_key')
})

t.test('what is offered as a subprotocol is a key for sessions alone', async (t) => {
  const bench = await open(t)
  const offered = { 'sec-websocket-protocol': 'realtime, openai-insecure-api-key.sk-other-key' }
  const beside = await bench.send({ headers: offered })
  t.equal(beside.status, 200)
  t.equal(beside.exchange.get(caller).key, 'test-key')
  const alone = await bench.send({ headers: { authorization: '', ...offered } })
  t.match([alone.status, code(alone)], [401, 'missing_api_key'])
  const socket = { path: '/v1/realtime', query: '', operation: { ...chat, body: 'socket' } }
  const protocols = 'realtime, openai-organization.org-0123456789, openai-insecure-api-key.sk-a'
  t.equal(presentedKey({ ...socket, headers: { 'sec-websocket-protocol': protocols } } as never), 'sk-a')
})

t.test('an expired key says so, one that expires later works', async (t) => {
  const bench = await open(t)
  const late = await bench.send({ headers: { authorization: 'Bearer sk-late-key' } })
  t.equal(late.status, 401)
  t.equal(code(late), 'expired_api_key')
  t.equal(bench.records.at(-1)?.key, 'late', 'operators see whose it was')
  t.equal((await bench.send({ headers: { authorization: 'Bearer sk-soon-key' } })).status, 200)
})

/** The hooks of the plugin with a catalogue of some keys, by their texts, and of the model `demo`. */
async function hooksWith(keys: Record<string, object>): Promise<any> {
  const callers = new Map(Object.entries(keys).map(([text, key]) => [digestOf(text).toString('hex'), key]))
  return auth.setup({}, {
    catalogue: {
      models: new Map([['demo', { name: 'demo' }]]),
      findKey: (digest: Buffer) => callers.get(digest.toString('hex')),
      findPresented: (secret: string) => callers.get(digestOf(secret).toString('hex')),
      whyNoKey: (digest: Buffer) => ({ by: 'key', what: digest.toString('hex') })
    }
  } as never)
}

/** What a hook throws: its code and its reason. */
function thrown(run: () => unknown): unknown[] | undefined {
  try {
    run()
  } catch (error) {
    const { code, details } = error as GatewayError
    return [code, (details.reason as { what?: string }).what]
  }
  return undefined
}

const everything = {
  mayCall: () => true,
  mayUse: () => true,
  whyNot: (asked: string, name: string) => ({ what: asked + name })
}

t.test('a key is good up to its time, and from its time on it is not', async (t) => {
  const expires = Date.UTC(2027, 0, 1)
  const hooks = await hooksWith({ 'sk-a': { ...everything, expires } })
  const at = (receivedAt: number) => () => {
    const request = { headers: { 'x-api-key': 'sk-a' }, path: '/v1/chat/completions', query: '', operation: chat }
    return hooks.onRequest({ request, receivedAt, model: '', set() {}, read() {} })
  }
  t.doesNotThrow(at(expires - 1))
  t.throws(at(expires), { code: 'expired_api_key' })
  t.throws(at(expires + 1), { code: 'expired_api_key' })
})

t.test(
  'what is open ends by the key that it was opened with, or the one that made its secret, and goes on else',
  async (t) => {
    const now = Date.UTC(2027, 0, 1)
    t.intercept(Date, 'now', { value: () => now })
    const sha = (text: string): string => digestOf(text).toString('hex')
    const turns = { ...chat, metering: { ...chat.metering, turns: {} } }
    let combinations = 0
    for (const secret of [undefined, { issuer: digestOf('sk-issuer') }])
      for (const there of [false, true])
        for (const expires of [undefined, now - 1, now, now + 1])
          for (const endpoint of [false, true])
            for (const mayUse of [false, true])
              for (const model of ['', 'demo', 'gone'])
                for (const operation of [chat, turns, { ...chat, metering: undefined }])
                  for (const same of [false, true]) {
                    combinations++
                    const found = {
                      ...everything,
                      expires,
                      mayCall: (name: string) => endpoint && name === 'chat',
                      mayUse: (name: string) => mayUse && name === model
                    }
                    const opened = same ? found : { ...found, ...everything, expires: undefined }
                    Object.assign(opened, { secret, digest: digestOf('sk-own') })
                    const text = secret ? 'sk-issuer' : 'sk-own'
                    const hooks = await hooksWith(there ? { [text]: found } : { 'sk-other': found })
                    const exchange = { find: () => opened, model, request: { operation } }
                    const expected = !there
                      ? ['invalid_api_key', sha(text)]
                      : expires !== undefined && expires <= now
                        ? ['expired_api_key', 'time']
                        : !endpoint
                          ? ['endpoint_not_allowed', 'endpointchat']
                          : model === '' || same
                            ? undefined
                            : operation === turns && model === 'gone'
                              ? ['model_not_found', 'there is no model gone']
                              : !mayUse
                                ? ['model_not_found', model === 'demo' ? 'modeldemo' : 'there is no model gone']
                                : undefined
                    const name = JSON.stringify({
                      secret: Boolean(secret),
                      there,
                      expires,
                      endpoint,
                      mayUse,
                      model,
                      same
                    })
                    t.same(
                      thrown(() => hooks.whileOpen(exchange)),
                      expected,
                      name
                    )
                  }
    t.ok(combinations > 500)
    const hooks = await hooksWith({})
    t.equal(hooks.whileOpen({ find: () => undefined }), undefined, 'what nobody was found for is left alone')
  }
)

t.test(
  'a rehearsal has the key that the operator named, else that of its headers, and the same refusals',
  async (t) => {
    const [a, b] = [{ ...everything }, { ...everything }]
    const hooks = await hooksWith({ 'sk-a': a, 'sk-b': b })
    const of = (rehearsal: object | undefined, headers: object) => {
      const request = { headers, path: '/v1/chat/completions', query: '', operation: chat }
      let found: unknown
      const set = (_slot: unknown, value: unknown): void => void (found = value)
      return { error: thrown(() => hooks.onRequest({ request, rehearsal, model: '', set, read() {} })), found }
    }
    const headers = { 'x-api-key': 'sk-b' }
    t.equal(of({ key: digestOf('sk-a') }, {}).found, a)
    t.equal(of({ key: digestOf('sk-a') }, headers).found, a, 'whatever else its headers have')
    t.equal(of({ key: undefined }, headers).found, b)
    t.equal(of(undefined, headers).found, b)
    t.same(of({ key: digestOf('sk-no') }, headers).error, ['invalid_api_key', digestOf('sk-no').toString('hex')])
    t.same(of({ key: undefined }, { 'x-api-key': 'sk-no' }).error, [
      'invalid_api_key',
      digestOf('sk-no').toString('hex')
    ])
  }
)

t.test('the reason of a refusal is about the model as it is named, however long', async (t) => {
  const upstream = await Upstream.start(t)
  const [long, other] = [`${'a'.repeat(200)}b`, `${'a'.repeat(200)}c`]
  const bench = await Workbench.open(t, {
    channels: { a: channelTo(upstream, { models: { [long]: 'x', [other]: 'y' } }) },
    models: { [long]: { price: 'free' }, [other]: { price: 'free' } },
    tenants: { acme: { models: [long, other] } },
    keys: [key({ models: [other] })]
  })
  const reasonOf = async (model: string): Promise<unknown> => {
    t.equal((await bench.send({ body: { model } })).status, 404)
    return bench.records.at(-1)!.reason
  }
  t.match(await reasonOf(long), { by: 'model', where: 'keys[test-key].models', what: /^key:test-key allows/ })
  const unknown = `n${'o'.repeat(254)}`
  t.match(await reasonOf(unknown), { by: 'model', where: 'models', what: `there is no model ${unknown.slice(0, 128)}` })
})

t.test('a key calls only the endpoints it is for', async (t) => {
  const bench = await open(t)
  const headers = { authorization: 'Bearer sk-lists-key' }
  const chat = await bench.send({ headers })
  t.equal(chat.status, 403)
  t.equal(code(chat), 'endpoint_not_allowed')
  t.equal((await bench.send({ method: 'GET', target: '/v1/models', headers })).status, 200)
})

t.test('a model that is hidden by any layer answers exactly as one that does not exist', async (t) => {
  const bench = await open(t)
  const about = async (model: string): Promise<string> => {
    const answer = await bench.send({ body: { model } })
    t.equal(answer.status, 404, model)
    t.equal(code(answer), 'model_not_found')
    t.equal(answer.exchange.attempts.length, 0)
    return answer.body.replaceAll(model, 'NAME')
  }
  t.equal(await about('hidden'), await about('nothing'))
  t.equal(await about('gone'), await about('nothing'), 'allowed to the tenant and not in the catalogue')
  const long = await bench.send({ body: { model: 'm'.repeat(100_000) } })
  t.equal(long.status, 400)
  t.ok(long.body.length < 1000)
})

t.test('the body of a request is not read before its key is known', async (t) => {
  const bench = await open(t)
  let read = false
  const body = new Readable({
    read() {
      read = true
      this.push(Buffer.from('{"model":"demo"}'))
      this.push(null)
    }
  })
  t.equal((await bench.send({ headers: { authorization: 'Bearer sk-wrong' }, body })).status, 401)
  t.notOk(read)
})

t.test('a body that is no JSON object is refused after the key and before anything else', async (t) => {
  const bench = await open(t)
  const answer = await bench.send({ body: '{"model":"demo"' })
  t.equal(answer.status, 400)
  t.equal(code(answer), 'invalid_json')
  t.equal(bench.ledger.rows.length, 0)
})

t.test('every reply about a deprecated model says when it goes and what follows it', async (t) => {
  const bench = await open(t)
  const retiring = {
    deprecation: '@1788220800',
    sunset: 'Mon, 01 Mar 2027 00:00:00 GMT',
    link: '</v1/models/family%2Fdemo%202>; rel="successor-version"'
  }
  t.match((await bench.send({ body: { model: 'old' } })).headers, retiring)
  const refused = await bench.send({ body: { model: 'old', max_tokens: 0 } })
  t.equal(refused.status, 400)
  t.match(refused.headers, retiring, 'errors included')
  t.notOk('deprecation' in (await bench.send()).headers)
})

t.test(
  'whoever asks for a deprecated model is told, also where a plugin takes another; and not about one that is not theirs to see',
  async (t) => {
    const upstream = (await Upstream.start(t)).json(chatAnswer()).json(chatAnswer()).json(chatAnswer())
    const renames: Record<string, string> = { old: 'demo', alias: 'old', secret: 'demo' }
    const rename = definePlugin({
      name: 'rename',
      summary: 'Takes another model.',
      options: {},
      setup: () => ({ onModel: (_exchange, model) => renames[model] })
    })
    const names = ['demo', 'old', 'secret']
    const bench = await Workbench.open(
      t,
      {
        channels: { a: channelTo(upstream, { models: Object.fromEntries(names.map((name) => [name, name])) }) },
        models: {
          demo: { price: 'free' },
          old: { price: 'free', deprecated: { since: '2026-09-01' } },
          secret: { price: 'free', deprecated: { since: '2026-09-02' } }
        },
        tenants: { acme: { models: ['demo', 'old'] } },
        chain: [{ rename: {} }, ...defaultChain]
      },
      { more: [rename] }
    )
    t.equal((await bench.send({ body: { model: 'old' } })).headers['deprecation'], '@1788220800')
    t.equal((await bench.send({ body: { model: 'alias' } })).headers['deprecation'], '@1788220800')
    t.equal((await bench.send({ body: { model: 'secret' } })).headers['deprecation'], undefined)
  }
)
