// Presets: what is known of well-known upstreams, and how calls reach one whose models stand in its paths.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { loadConfig } from '../../config/load.ts'
import type { Loaded } from '../../config/load.ts'
import { presetNames } from '../../config/presets/presets.ts'
import { plugins } from '../../plugins/index.ts'
import { gateway, testModel } from '../kit/gateway.ts'
import { tokenServer } from '../kit/token-server.ts'
import type { Asked } from '../kit/token-server.ts'
import { Upstream } from '../kit/upstream.ts'
import { chatAnswer, chatEvents } from '../kit/workbench.ts'

t.setTimeout(600_000)

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
    const [, family = 'openai'] = /(claude|anthropic|gemini|bedrock$|vertex$)/.exec(preset) ?? []
    const spoken: Record<string, string> = { claude: 'anthropic', vertex: 'gemini' }
    t.equal(channel.protocol, spoken[family] ?? family, preset)
    t.ok(channel.endpoints.size > 0 && /^https?:/.test(channel.baseUrl.href))
  }
  t.end()
})

t.test('every preset says which page says so, and when that was read, if it was', (t) => {
  const presets = JSON.parse(
    readFileSync(join(import.meta.dirname, '../../config/presets/presets.json'), 'utf8')
  ) as Record<string, { source?: string; checked?: string }>
  const table = readFileSync(join(import.meta.dirname, '../../config/presets/PRESETS.md'), 'utf8')
  for (const [name, { source, checked }] of Object.entries(presets)) {
    t.match(source, /^https:\/\/[a-z0-9.-]+\//, name)
    if (checked !== undefined) t.equal(new Date(`${checked}T00:00:00Z`).toISOString().slice(0, 10), checked, name)
    const row = table.split('\n').find((line) => line.startsWith(`| \`${name}\` |`))
    t.ok(row?.includes(`(${source})`) && row.endsWith(`| ${checked ?? ''} |`), `${name} in the table`)
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

/**
 * What the vendors document: the address, the paths below it that there are, the header of the key unless it is
 * Bearer, and the member of the longest answer. Each line stands for the page that `source` names in presets.json.
 */
const documented: Readonly<Record<string, { at: string; has: readonly string[]; key?: string; limit?: string }>> = {
  openai: { at: 'https://api.openai.com/v1', has: ['chat/completions', 'embeddings'], limit: 'max_completion_tokens' },
  anthropic: { at: 'https://api.anthropic.com/v1', has: ['messages'], key: 'x-api-key', limit: 'max_tokens' },
  vllm: { at: 'http://127.0.0.1:8000/v1', has: ['chat/completions', 'embeddings', 'rerank'] },
  sglang: { at: 'http://127.0.0.1:30000/v1', has: ['chat/completions', 'embeddings', 'rerank'], limit: 'max_tokens' },
  'llama-cpp': {
    at: 'http://127.0.0.1:8080/v1',
    has: ['chat/completions', 'embeddings', 'rerank'],
    limit: 'max_tokens'
  },
  'lm-studio': { at: 'http://127.0.0.1:1234/v1', has: ['chat/completions', 'embeddings'], limit: 'max_tokens' },
  tei: { at: 'http://127.0.0.1:8080/v1', has: ['embeddings'] },
  cohere: {
    at: 'https://api.cohere.ai/compatibility/v1',
    has: ['chat/completions', 'embeddings'],
    limit: 'max_tokens'
  },
  'cohere-rerank': { at: 'https://api.cohere.com/v2', has: ['rerank'] },
  jina: { at: 'https://api.jina.ai/v1', has: ['embeddings', 'rerank'] },
  voyage: { at: 'https://api.voyageai.com/v1', has: ['embeddings', 'rerank'] },
  cerebras: { at: 'https://api.cerebras.ai/v1', has: ['chat/completions'], limit: 'max_completion_tokens' },
  perplexity: { at: 'https://api.perplexity.ai/v1', has: ['responses'], limit: 'max_output_tokens' },
  deepseek: { at: 'https://api.deepseek.com/', has: ['chat/completions'], limit: 'max_tokens' },
  'deepseek-anthropic': {
    at: 'https://api.deepseek.com/anthropic/v1',
    has: ['messages'],
    key: 'x-api-key',
    limit: 'max_tokens'
  },
  'minimax-anthropic': {
    at: 'https://api.minimax.io/anthropic/v1',
    has: ['messages'],
    key: 'x-api-key',
    limit: 'max_tokens'
  },
  'dashscope-anthropic': {
    at: 'https://dashscope-intl.aliyuncs.com/apps/anthropic/v1',
    has: ['messages'],
    key: 'x-api-key',
    limit: 'max_tokens'
  },
  zai: { at: 'https://api.z.ai/api/paas/v4', has: ['chat/completions'], limit: 'max_tokens' },
  fireworks: {
    at: 'https://api.fireworks.ai/inference/v1',
    has: ['chat/completions', 'embeddings'],
    limit: 'max_tokens'
  },
  together: {
    at: 'https://api.together.ai/v1',
    has: ['chat/completions', 'embeddings'],
    limit: 'max_tokens'
  },
  groq: { at: 'https://api.groq.com/openai/v1', has: ['chat/completions'], limit: 'max_completion_tokens' },
  xai: { at: 'https://api.x.ai/v1', has: ['chat/completions'], limit: 'max_completion_tokens' },
  dashscope: {
    at: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    has: ['chat/completions', 'embeddings'],
    limit: 'max_tokens'
  },
  moonshot: { at: 'https://api.moonshot.ai/v1', has: ['chat/completions'], limit: 'max_completion_tokens' },
  zhipu: { at: 'https://open.bigmodel.cn/api/paas/v4', has: ['chat/completions', 'embeddings'], limit: 'max_tokens' },
  minimax: { at: 'https://api.minimax.io/v1', has: ['chat/completions'], limit: 'max_completion_tokens' },
  siliconflow: {
    at: 'https://api.siliconflow.com/v1',
    has: ['chat/completions', 'embeddings', 'rerank'],
    limit: 'max_tokens'
  },
  nvidia: {
    at: 'https://integrate.api.nvidia.com/v1',
    has: ['chat/completions', 'embeddings'],
    limit: 'max_tokens'
  }
}

const embedded = { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0.5] }], model: 'theirs' }
const counted = { usage: { prompt_tokens: 1, total_tokens: 1 } }
const answers: Readonly<Record<string, unknown>> = {
  'chat/completions': chatAnswer(),
  embeddings: { ...embedded, ...counted },
  rerank: { results: [{ index: 0, relevance_score: 0.5 }], ...counted },
  responses: {
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    status: 'completed',
    model: 'theirs',
    output: [
      {
        type: 'message',
        id: 'msg_1',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Hello', annotations: [] }]
      }
    ],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  },
  messages: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'theirs',
    content: [{ type: 'text', text: 'Hello' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 }
  }
}

/** What is wrong with a request by what is documented; undefined when nothing is. */
function faultOf({ target, headers, body, method }: Asked, preset: string): string | undefined {
  const { at, has, key, limit } = documented[preset]!
  const below = new URL(at).pathname.replace(/\/$/, '')
  const path = has.find((one) => target === `${below}/${one}`)
  if (!path || method !== 'POST') return `there is no ${method} ${target}`
  const carried = key ? headers[key] : headers.authorization?.replace(/^Bearer /, '')
  if (carried !== `key-of-${preset}`) return 'no key, or another one'
  const sent = JSON.parse(body.toString())
  if (sent.model !== 'theirs') return `no model ${sent.model}`
  const limits = Object.keys(sent).filter((member) => member.startsWith('max_'))
  if (limit && path !== 'embeddings' && path !== 'rerank' && limits.join() !== limit) return `no ${limits.join()}`
  return undefined
}

t.test('each is asked at the address, with the key and in the words that its vendor documents', async (t) => {
  for (const [preset, { at, has }] of Object.entries(documented)) {
    const known = load(t, { preset, credential: 'secret' }).config!.channels.get('a')!
    t.equal(known.baseUrl.href, at, preset)
    await t.test(preset, async (t) => {
      const faults: string[] = []
      const upstream = await tokenServer(t, (asked) => {
        const fault = faultOf(asked, preset)
        if (fault) faults.push(fault)
        if (fault) return { status: 400, body: { error: { message: fault } } }
        return { body: answers[has.find((one) => asked.target.endsWith(one))!] }
      })
      const local = await gateway(t, {
        channels: {
          a: {
            preset,
            base_url: `${upstream.url}${new URL(at).pathname}`.replace(/\/$/, ''),
            private: true,
            credential: `key-of-${preset}`,
            models: { m: 'theirs' }
          }
        },
        models: { m: { price: { input: 1, output: 1, search: 1 } } }
      })
      const messages = [{ role: 'user', content: 'Hi' }]
      for (const path of has) {
        const reply =
          path === 'embeddings'
            ? await local.ask({ path: '/v1/embeddings', body: { model: 'm', input: 'Hi' } })
            : path === 'rerank'
              ? await local.ask({ path: '/v1/rerank', body: { model: 'm', query: 'Hi', documents: ['Hello'] } })
              : await local.ask({
                  path: has[0] === 'messages' ? '/v1/chat/completions' : '/v1/messages',
                  body: { model: 'm', max_tokens: 50, messages }
                })
        t.equal(reply.status, 200, `${preset} ${path}: ${reply.text.slice(0, 200)}`)
      }
      t.same(faults, [], preset)
    })
  }
})
