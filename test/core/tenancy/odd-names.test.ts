// Names that every object of JavaScript has by itself: wherever operators choose names, they are names like others, or
// refused by name.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readConfig } from '../../../core/program/configuration.ts'
import { plugins } from '../../../plugins/index.ts'
import { ask } from '../../kit/client.ts'
import { gateway, testKey } from '../../kit/gateway.ts'

const inherited = ['constructor', 'toString', 'valueOf', 'hasOwnProperty', '__proto__', '__defineGetter__']
/** Those that the pattern of names allows. */
const allowed = inherited.filter((name) => !name.startsWith('_'))

t.test('limits of models by such patterns are set, changed and taken out by patches', async (t) => {
  const local = await gateway(t)
  const admin = (method: string, path: string, body?: string) =>
    ask(t, local.adminUrl, { method, path: `/admin/v1${path}`, ...(body !== undefined && { body }) })
  const made = await admin(
    'POST',
    '/keys',
    '{"tenant": "acme", "name": "k", "limits": {"models": {"valueOf": {"rpm": 1}}}}'
  )
  t.equal(made.status, 201, made.text)
  for (const name of [...inherited, 'models', 'limits', 'tags']) {
    const patch = (value: string) => admin('PATCH', '/keys/k', `{"limits": {"models": {"${name}": ${value}}}}`)
    const shown = (text: string): unknown => new Map(Object.entries(JSON.parse(text).limits.models ?? {})).get(name)
    t.strictSame(shown((await patch('{"rpm": 2, "rps": 1}')).text), { rpm: 2, rps: 1 }, `${name} is set`)
    t.strictSame(shown((await patch('{"rpm": 3}')).text), { rpm: 3 }, `${name} is replaced whole`)
    t.strictSame(shown((await admin('GET', '/keys/k')).text), { rpm: 3 }, `${name} is kept`)
    t.strictSame(shown((await patch('null')).text), undefined, `${name} is taken out`)
  }
  const nothing = '{"limits": {"models": {"x": null}, "rpm": null}, "tags": {"x": null}}'
  t.equal((await admin('POST', '/keys', '{"tenant": "acme", "name": "bare"}')).status, 201)
  const bare = await admin('PATCH', '/keys/bare', nothing)
  t.match(bare.json(), { tags: {}, limits: {} }, `what is not there can be taken out: ${bare.text}`)
  t.strictSame(bare.json().limits.models ?? {}, {})
  for (const body of [
    '{"__proto__": {"models": ["x"]}}',
    '{"limits": {"__proto__": {"rpm": 1}}}',
    '{"tags": {"__proto__": "x"}}'
  ]) {
    const reply = await admin('PATCH', '/keys/k', body)
    t.equal(reply.status, 400, body)
    t.match(reply.json().error, { message: /__proto__/ }, body)
  }
})

t.test('a limit of a model by such a pattern holds', async (t) => {
  const local = await gateway(t, {
    models: { constructor: { price: 'free' } },
    channels: { demo: { models: { constructor: 'demo' } } }
  })
  const patch = await ask(t, local.adminUrl, {
    path: '/admin/v1/keys',
    body: '{"tenant": "acme", "name": "k", "limits": {"models": {"constructor": {"rpm": 1}}}}'
  })
  const headers = { authorization: `Bearer ${patch.json().key}` }
  const chat = () =>
    ask(t, local.url, {
      path: '/v1/chat/completions',
      headers,
      body: { model: 'constructor', messages: [{ role: 'user', content: 'Hi' }] }
    })
  t.same([(await chat()).status, (await chat()).status], [200, 429])
})

t.test('everything that has a name may be called so', async (t) => {
  for (const name of allowed) {
    const local = await gateway(t, {
      channels: {
        demo: { protocol: 'simulator', models: { demo: 'demo' } },
        [name]: { protocol: 'simulator', models: { [name]: 'demo' } }
      },
      models: { [name]: { price: { input: 1, output: 1 } } },
      tenants: { acme: {}, [name]: { projects: { [name]: { members: { [name]: {} } } }, tags: { [name]: name } } },
      keys: [
        { name, key: 'sk-odd', tenant: name, project: name, member: name },
        { name: 'test', key: testKey, tenant: 'acme' }
      ]
    })
    const reply = await ask(t, local.url, {
      path: '/v1/chat/completions',
      headers: { authorization: 'Bearer sk-odd' },
      body: { model: name, messages: [{ role: 'user', content: 'Hi' }] }
    })
    t.equal(reply.status, 200, reply.text)
    t.match(await local.record(reply), {
      tenant: name,
      project: name,
      member: name,
      key: name,
      channel: name,
      model: name
    })
    const [spend] = (await local.admin(`/admin/v1/spend?by=tenant,project,member,key,model,channel,tag:${name}`)).data
    t.match(spend, { tenant: name, [`tag:${name}`]: name })
    const channels = (await local.admin('/admin/v1/channels')).data
    t.match(
      channels.find((one: { name: string }) => one.name === name),
      { state: 'healthy', models: { [name]: 'demo' } }
    )
    for (const path of [
      `tenants/${name}`,
      `projects/${name}/${name}`,
      `members/${name}/${name}/${name}`,
      `keys/${name}`
    ])
      t.match(await local.admin(`/admin/v1/${path}`), { name, state: 'active' }, path)
    const explained = await ask(t, local.adminUrl, { path: '/admin/v1/explain', body: { key: name, model: name } })
    t.match(explained.json(), { outcome: 'sent', caller: { tenant: name }, order: [{ channel: name }] }, explained.text)
    for (const path of [
      `keys?${name}=1`,
      `spend?by=${name}`,
      `balances?scope=${name}`,
      `capabilities?client=${name}`,
      `requests?outcome=${name}`
    ]) {
      const { status } = await ask(t, local.adminUrl, { path: `/admin/v1/${path}` })
      t.ok(status < 500, `${path}: ${status}`)
    }
    for (const [method, path, body] of [
      ['POST', 'explain', { key: 'test', endpoint: name }],
      ['POST', 'explain', { key: 'test', model: 'demo', [name]: 1 }],
      ['POST', `channels/${name}/test`, { endpoint: name }],
      ['PATCH', `channels/${name}`, { [name]: true }],
      ['POST', 'operators', { name, role: name }]
    ] as const) {
      const { status, text } = await ask(t, local.adminUrl, { method, path: `/admin/v1/${path}`, body })
      t.equal(status, 400, `${path}: ${text}`)
    }
  }
})

t.test('the file takes no key of such a name where it knows all keys', async (t) => {
  const file = join(t.testdir(), 'gateway.yaml')
  const base =
    'channels: { demo: { protocol: simulator, models: { demo: demo } } }\nmodels: { demo: { price: free } }\nchain: [auth]\n'
  const check = (text: string) => {
    writeFileSync(file, text)
    return readConfig({ file, env: {}, plugins }).then(
      () => [],
      ({ problems }: { problems: { message: string }[] }) => problems.map(({ message }) => message)
    )
  }
  t.same(await check(base), [])
  for (const name of inherited) {
    t.match(await check(`${base}${name}: { a: 1 }\n`), [new RegExp(name)], `${name} beside the sections`)
    t.match(await check(`${base}limits: { ${name}: { a: 1 } }\n`), [new RegExp(name)], `${name} in a section`)
    t.match(await check(`${base}tenants: { acme: { ${name}: { a: 1 } } }\n`), [new RegExp(name)], `${name} of a tenant`)
    t.match(await check(base.replace('[auth]', `[{ ${name}: {} }]`)), [new RegExp(name)], `${name} in the chain`)
    t.match(
      await check(base.replace('[auth]', `[{ route: { ${name}: {} } }]`)),
      [new RegExp(name)],
      `${name} of a plugin`
    )
  }
})
