// Presets: what is known of well-known upstreams, and how calls reach one whose models stand in its paths.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { loadConfig } from '../../config/load.ts'
import type { Loaded } from '../../config/load.ts'
import { presetNames } from '../../config/presets.ts'
import { plugins } from '../../plugins/index.ts'
import { gateway, testModel } from '../kit/gateway.ts'
import { Upstream } from '../kit/upstream.ts'
import { chatAnswer, chatEvents } from '../kit/workbench.ts'

function load(t: Test, channel: object): Loaded {
  const file = join(t.testdir(), 'gateway.yaml')
  const models = { m: 'their-m' }
  writeFileSync(
    file,
    JSON.stringify({
      channels: { a: { models, ...channel } },
      models: { m: { price: 'free' } },
      chain: ['auth', 'quota', 'ratelimit', 'route', 'usage-meter', 'log']
    })
  )
  return loadConfig(file, { env: {}, plugins, simulatorUrl: new URL('http://127.0.0.1:1/v1') })
}

t.test('every preset makes a channel with what it leaves open', (t) => {
  for (const preset of presetNames) {
    const { config, problems } = load(t, {
      preset,
      // Those of a resource, a region or a project have no address that all share.
      ...(/^(?:azure|bedrock|vertex)/.test(preset) && { base_url: 'https://me.example.com/v1' }),
      credential: 'secret'
    })
    t.same(problems, undefined, preset)
    const channel = config!.channels.get('a')!
    const [, family = 'openai'] = /(claude|bedrock$|vertex$)/.exec(preset) ?? []
    const spoken: Record<string, string> = { claude: 'anthropic', vertex: 'gemini' }
    t.equal(channel.protocol, spoken[family] ?? family, preset)
    t.ok(channel.endpoints.has('chat') && /^https?:/.test(channel.baseUrl.href))
  }
  t.end()
})

t.test('what the entry says counts first, and a name that there is not is refused', (t) => {
  const own = load(t, {
    preset: 'mistral',
    base_url: 'https://own.example/v1?x=1',
    query: { x: '2', y: '3' },
    endpoints: ['chat']
  }).config!.channels.get('a')!
  t.equal(own.baseUrl.href, 'https://own.example/v1?x=1&y=3')
  t.same([...own.endpoints], ['chat'])
  t.same(own.traits, { maxTokensMember: 'max_tokens' })
  t.equal(own.streamOptions, false)
  const more = load(t, {
    preset: 'deepseek',
    traits: { developer_role: true },
    usage: { stream_options: false }
  }).config!.channels.get('a')!
  t.same(
    more.traits,
    { maxTokensMember: 'max_tokens', replaysReasoning: true, developerRole: true },
    'traits of the entry stand beside those of the preset'
  )
  t.equal(more.streamOptions, false)
  const [problem] = load(t, { preset: 'mistrall', protocol: 'openai', base_url: 'https://own.example/v1' }).problems!
  t.match(problem!.message, /mistral/)
  t.match(load(t, { protocol: 'openai', base_url: 'https://own.example/v1', path: 'x/' }).problems![0]!.message, /path/)
  t.end()
})

t.test('calls go below the path of the model, with its parameters, and the key in its header', async (t) => {
  const upstream = await Upstream.start(t)
  const base = upstream.url.href.replace('/v1', '/openai')
  const local = await gateway(
    t,
    { channels: { a: { preset: 'azure', base_url: base, models: { [testModel]: 'my deployment' } } } },
    { upstreams: { a: upstream } }
  )
  upstream.json(chatAnswer()).sse(chatEvents())
  t.equal((await local.chat()).json().model, testModel)
  const [request] = upstream.requests
  t.equal(request!.target, '/openai/deployments/my%20deployment/chat/completions?api-version=2024-10-21')
  t.match([request!.headers['api-key'], request!.headers['authorization']], ['upstream-secret-of-a', undefined])
  t.match((await local.chat({ stream: true })).text, /\[DONE\]/)
})
