// Configurations of other gateways, which become files that `check` accepts and that serve the keys of their clients.
import { createHash } from 'node:crypto'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import type { Test } from 'tap'
import { parse } from 'yaml'
import { findListed } from '../../config/prices/price-list.ts'
import { budgetOf } from '../../core/commands/import/budget.ts'
import { Draft } from '../../core/commands/import/draft.ts'
import { Fates } from '../../core/commands/import/fates.ts'
import { importNewApi, tablesOfDump } from '../../core/commands/import/new-api-database.ts'
import { importConfig } from '../../core/commands/import/litellm-config.ts'
import { readDump } from '../../core/commands/import/sql-dump.ts'
import { changed, placesOf } from './simulator/kit.ts'
import { sluice } from '../kit/command.ts'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import { tokenServer } from '../kit/token-server.ts'
import type { TokenServer } from '../kit/token-server.ts'
import { chatAnswer } from '../kit/workbench.ts'

t.setTimeout(600_000)

const golden = join(import.meta.dirname, '../golden/import/litellm')
const secret = 'sk-client-0000000000000000'
const hash = createHash('sha256').update(secret).digest('hex')

interface Made {
  readonly file: string
  readonly yaml: any
  readonly err: string
}

/** Imports, and holds that `check` accepts what was made. `files`: what is written for it, by the names of `args`. */
async function imported(
  t: Test,
  args: readonly string[],
  env: Record<string, string> = {},
  files: Record<string, string> = {}
): Promise<Made> {
  const folder = t.testdir(files)
  const file = join(folder, 'made.yaml')
  const { code, out, err } = await sluice([
    'import',
    ...args.map((arg) => (arg in files ? join(folder, arg) : arg)),
    '--out',
    file
  ])
  t.equal(code, 0, err)
  t.equal(out, '')
  t.equal(statSync(file).mode & 0o777, 0o600, 'it is for its user alone')
  const checked = await sluice(['check', '--config', file], { env: { ...process.env, ...env } })
  t.equal(checked.code, 0, checked.out)
  return { file, yaml: parse(readFileSync(file, 'utf8')), err }
}

/** Serves an imported file, and asks for a model with a key that clients have had before. */
async function serves(t: Test, file: string, key: string, model: string, env: Record<string, string>): Promise<any> {
  const text = readFileSync(file, 'utf8').replace('port: 8080', 'port: 0').replace('port: 9090', 'port: 0')
  const running = await gateway(t, text.replace('./data/sluice.db', './sluice.db'), { env: { ...process.env, ...env } })
  const reply = await ask(t, running.url, {
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${key}` },
    body: { model, messages: [{ role: 'user', content: 'Hi' }] }
  })
  t.equal(reply.status, 200, reply.text)
  return running.record(reply)
}

async function vendor(t: Test): Promise<TokenServer> {
  return tokenServer(t, () => ({ body: chatAnswer() }))
}

t.test('a simple configuration of LiteLLM: providers, prices, fallbacks, a budget and the master key', async (t) => {
  const upstream = await vendor(t)
  const env = {
    AZURE_API_KEY_EU: 'azure-key',
    OPENAI_API_KEY: 'openai-key',
    ANTHROPIC_API_KEY: 'anthropic-key',
    VLLM_BASE: `${upstream.url}/v1`
  }
  const { file, yaml, err } = await imported(t, ['litellm', join(golden, 'simple.yaml')], env)
  t.match(yaml.models, {
    'gpt-4o': { price: 'list', fallback: ['claude'] },
    claude: { price: 'list', fallback: ['local'], fallback_on: ['context'] },
    local: { price: { input: '0.15', output: '0.6' } }
  })
  t.notOk('nobody-knows' in yaml.models, 'what nobody knows the price of is left out')
  t.match(yaml.channels['my-endpoint-europe'], {
    preset: 'azure',
    base_url: 'https://my-endpoint-europe.openai.azure.com/openai',
    credential: '${AZURE_API_KEY_EU}',
    query: { 'api-version': '2024-10-21' },
    limits: { models: { 'gpt-4o': { rpm: 6 } } },
    models: { 'gpt-4o': 'gpt-4o-eu' }
  })
  t.match(yaml.tenants, { litellm: { budget: { usd: '1000', per: '30d' } } })
  for (const told of [
    /model: nobody knows its price.*--free.*nobody-knows/,
    /fallbacks: missing is no model of this file \(gpt-4o\)/,
    /fallbacks: gpt-4o leads back to the model \(claude\)/,
    /litellm_params\.temperature/,
    /litellm_settings\.success_callback: see docs\/TELEMETRY\.md/,
    /general_settings\.database_url: give a dump/,
    /general_settings\.master_key: it may call, and administers nothing/
  ])
    t.match(err, told)
  t.notMatch(err, /num_retries|request_timeout/, 'what was taken over is not told')
  t.notMatch(readFileSync(file, 'utf8'), 'sk-1234', 'the key of clients is there as a hash')
  t.match(await serves(t, file, 'sk-1234', 'local', env), { tenant: 'litellm', key: 'master' })
  t.match(upstream.asked[0], { target: '/v1/chat/completions' })
})

/** Imports a configuration of LiteLLM that is given as an object. */
function importedFrom(t: Test, config: object): Promise<Made> {
  const text = `# JSON is YAML\n${JSON.stringify(config)}`
  return imported(t, ['litellm', 'config.yaml'], { KEY: 'key' }, { 'config.yaml': text })
}

const deployment = (model_name: string, model: string, more: object = {}): object => ({
  model_name,
  litellm_params: { model, api_key: 'os.environ/KEY', ...more }
})

t.test('models of LiteLLM have the price of what is asked upstream, whatever they are called', async (t) => {
  const { yaml, err } = await importedFrom(t, {
    model_list: [
      deployment('gpt-3.5-turbo', 'openai/gpt-4o'),
      deployment('team', 'azure/ours', { api_base: 'https://a.example', base_model: 'azure/gpt-4o-mini' }),
      deployment('mixed', 'openai/gpt-4o'),
      deployment('mixed', 'anthropic/claude-sonnet-4-5'),
      deployment('plain', 'openai/gpt-4o')
    ]
  })
  const priceOf = (name: string): object => findListed({ name, upstream: [] }) as object
  t.same(yaml.models['gpt-3.5-turbo'].price, priceOf('gpt-4o'))
  t.same(yaml.models.team.price, priceOf('gpt-4o-mini'))
  t.same(yaml.models.mixed.price, priceOf('gpt-4o'), 'the list has two prices for it')
  t.equal(yaml.models.plain.price, 'list')
  t.match(err, /price: that of the first way to the model is taken for all \(mixed\)/)
})

t.test('stand-ins that the check refuses are left out, and told', async (t) => {
  const many = Array.from({ length: 9 }, (_, n) => `m${n}`)
  const { yaml, err } = await importedFrom(t, {
    model_list: [
      deployment('vectors', 'openai/text-embedding-ada-002'),
      deployment('small', 'openai/text-embedding-3-small'),
      ...['gpt', ...many].map((name) => deployment(name, 'openai/gpt-4o'))
    ],
    litellm_settings: { fallbacks: [{ gpt: many }, { vectors: ['small', 'm0'] }, { m0: ['small'] }] }
  })
  t.same(yaml.models.gpt.fallback, many.slice(1, 8), 'the first leads to one of another kind')
  t.match(yaml.models.vectors, { fallback: ['small'], fallback_embeddings: true })
  t.same(yaml.models.m0, { price: 'list' })
  for (const told of [
    /fallbacks: m8 is one too many: at most 8 models may answer \(gpt\)/,
    /fallbacks: m0 is sold by something else.*\(vectors, gpt\)/,
    /fallbacks: small is sold by something else.*\(m0\)/,
    /fallbacks: vectors of two models do not compare.*\(vectors\)/
  ])
    t.match(err, told)
})

t.test('with several ways to a model, a pattern, aliases, and the keys and teams of the database', async (t) => {
  const upstream = await vendor(t)
  const folder = t.testdir()
  const config = join(folder, 'config.yaml')
  const dump = join(folder, 'dump.sql')
  writeFileSync(
    config,
    readFileSync(join(golden, 'balanced.yaml'), 'utf8').replaceAll('http://127.0.0.1:1', upstream.url)
  )
  writeFileSync(dump, readFileSync(join(golden, 'keys.sql'), 'utf8').replace('@HASH@', hash))
  const env = { OPENAI_API_KEY: 'openai-key', LITELLM_MASTER_KEY: 'sk-master-000000' }
  const made = await sluice(['import', 'litellm', config, '--keys', dump, '--out', join(folder, 'gateway.yaml')])
  t.equal(made.code, 0, made.err)
  const file = join(folder, 'gateway.yaml')
  const checked = await sluice(['check', '--config', file], { env: { ...process.env, ...env } })
  t.equal(checked.code, 0, checked.out)
  const yaml = parse(readFileSync(file, 'utf8'))
  t.match(Object.values(yaml.channels), [
    {
      private: true,
      credential: 'sk-first',
      weight: 2,
      priority: 1,
      limits: { models: { chat: { rpm: 100, tpm: 100_000 } } }
    },
    {
      credential: 'sk-with$$dollar',
      priority: 2,
      timeouts: { first_byte: '5000ms', total: '30000ms' },
      limits: { models: { chat: { concurrency: 5 } } }
    },
    { preset: 'openai', models: {} }
  ])
  t.match(yaml.models, {
    'gpt-4': { alias: 'chat' },
    hidden: { alias: 'chat' },
    'openai/*': { channel: 'openai', upstream: '*', price: { input: '10', output: '20' } }
  })
  t.match(yaml.tenants.litellm.projects, {
    'Search-Ads': { models: ['chat', 'gpt-4'], limits: { rpm: 600 }, budget: { usd: '74.5', per: 'total' } }
  })
  t.match(yaml.keys, [
    { name: 'master', key: '${LITELLM_MASTER_KEY}' },
    {
      name: 'search',
      key_sha256: hash,
      project: 'Search-Ads',
      limits: { rpm: 60, tpm: 100_000, concurrency: 4 },
      budget: { usd: '5', per: '1d' },
      expires: '2099-01-01T00:00:00Z',
      tags: { user: 'u\\1' }
    },
    { name: 'search-2', enabled: false }
  ])
  for (const told of [
    /routing_strategy: usage-based-routing-v2 becomes chance by weight/,
    /model_list: a pattern needs letters in front of its \*/,
    /model_info\.supports_vision/,
    /environment_variables: set it in the environment of the gateway \(LANGFUSE_HOST\)/,
    /guardrails: write a plugin/,
    /key: it is kept otherwise than as a SHA-256/,
    /aliases: it has no counterpart \(search\)/,
    /max_budget: what was spent in this window counts from zero \(search\)/
  ])
    t.match(made.err, told)
  t.match(await serves(t, file, secret, 'gpt-4', env), { key: 'search', project: 'Search-Ads', model: 'chat' })
})

t.test('twenty-five providers of LiteLLM, each by its preset or its address', async (t) => {
  const source = join(golden, 'providers.yaml')
  const variables = JSON.parse(
    readFileSync(join(import.meta.dirname, '../../core/commands/import/litellm-providers.json'), 'utf8')
  ) as Record<string, { variable?: string }>
  const env = Object.fromEntries(
    Object.values(variables).flatMap(({ variable }) => (variable ? [[variable, 'k']] : []))
  )
  const { yaml, err } = await imported(t, ['litellm', source, '--free'], env)
  const wanted = (parse(readFileSync(source, 'utf8')).model_list as { model_name: string }[]).map(
    (one) => one.model_name
  )
  t.same(Object.keys(yaml.models), wanted.slice(0, -1), 'all but the one that has no counterpart')
  t.match(err, /model_list: nobody knows the provider of petals\/bloom/)
  t.match(err, /price: nobody knows it, so it costs nothing \(--free\)/)
  t.match(yaml.channels, {
    openai: { preset: 'openai', credential: '${OPENAI_API_KEY}', models: { 'm-openai': 'gpt-4o' } },
    'cohere-rerank': { models: { 'm-rerank': 'rerank-v3.5' } },
    bedrock: { preset: 'bedrock', credential: { aws: { region: 'us-east-1' } } },
    'vertex-claude': { protocol: 'anthropic', credential: { gcp: {} } },
    ollama: { base_url: 'http://ollama:11434/v1', private: true },
    me: { credential: { azure: {} } }
  })
  t.equal(yaml.models['m-ollama'].price, 'free')
})

const newApiKey = 'AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl'

/** A database of new-api with the columns that its tables have. */
function newApi(file: string, url: string): void {
  const database = new DatabaseSync(file)
  database.exec(`
    CREATE TABLE channels (id integer, type integer, key text, openai_organization text, status integer, name text, weight integer, base_url text, other text, models text, "group" text, model_mapping text, priority integer, auto_ban integer, setting text);
    CREATE TABLE tokens (id integer, user_id integer, key char(48), status integer, name text, expired_time integer, remain_quota integer, unlimited_quota numeric, model_limits_enabled numeric, model_limits text, allow_ips text, "group" text, deleted_at datetime);
    CREATE TABLE users (id integer, username text, status integer, quota integer, deleted_at datetime);
    CREATE TABLE options (key text, value text);
    INSERT INTO users VALUES (1, 'root', 1, 5000000, NULL), (2, 'poor', 1, 0, NULL), (3, 'gone', 1, 0, '2026-01-01');
    INSERT INTO options VALUES ('ModelRatio', '{"gpt-ours": 1.25, "other": 0.075}'), ('CompletionRatio', '{"gpt-ours": 4}'), ('ModelPrice', '{"painter": 0.04}');
    INSERT INTO tokens VALUES
      (1, 1, '${newApiKey}', 1, 'laptop', -1, 250000, 0, 1, 'gpt-ours,other', '', '', NULL),
      (2, 1, 'second0000000000000000000000000000000000000000000', 2, 'laptop', 4070908800, 0, 1, 0, '', '10.0.0.1', 'vip', NULL),
      (3, 1, 'deleted', 1, 'deleted', -1, 0, 1, 0, '', '', '', '2026-01-01'),
      (4, 3, 'orphan', 1, 'or\u001bphan', -1, 0, 1, 0, '', '', '', NULL);
  `)
  const insert = database.prepare('INSERT INTO channels VALUES (?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)')
  const mapping = '{"gpt-ours": "their-gpt"}'
  insert.run(1, 1, 'sk-up-one\nsk-up-two', 1, 'main', 5, url, '', 'gpt-ours,other', 'default', mapping, 10, '')
  insert.run(2, 14, 'sk-ant', 2, 'claude', 0, '', '', 'claude-sonnet-4-5', 'default,vip', '', 0, '{"x":1}')
  insert.run(3, 18, 'a|b|c', 1, 'spark', 0, '', '', 'spark', 'default', '', 0, '')
  database.close()
}

t.test('a database of new-api: channels, users, tokens and ratios', async (t) => {
  const upstream = await vendor(t)
  const database = join(t.testdir(), 'one-api.db')
  newApi(database, upstream.url)
  const file = `${database}.yaml`
  const made = await sluice(['import', 'new-api', database, '--out', file])
  t.equal(made.code, 0, made.err)
  const checked = await sluice(['check', '--config', file])
  t.equal(checked.code, 0, checked.out)
  const yaml = parse(readFileSync(file, 'utf8'))
  t.match(yaml.channels, {
    main: {
      base_url: `${upstream.url}/v1`,
      private: true,
      credentials: ['sk-up-one', 'sk-up-two'],
      weight: 5,
      priority: 0,
      models: { 'gpt-ours': 'their-gpt', other: 'other' }
    },
    claude: { preset: 'anthropic', enabled: false, priority: 10 }
  })
  t.match(yaml.models, {
    'gpt-ours': { price: { input: '2.5', output: '10' } },
    other: { price: { input: '0.15', output: '0.15' } },
    'claude-sonnet-4-5': { price: 'list' }
  })
  t.match(yaml.tenants, {
    'new-api': { projects: { root: { budget: { usd: '10', per: 'total' } }, poor: { budget: { usd: '0' } } } }
  })
  t.match(yaml.keys, [
    { name: 'laptop', project: 'root', models: ['gpt-ours', 'other'], budget: { usd: '0.5', per: 'total' } },
    { name: 'laptop-2', enabled: false, expires: '2099-01-01T00:00:00Z' }
  ])
  t.equal(yaml.keys.length, 2)
  for (const told of [
    /channels: its type 18 has no counterpart \(spark\)/,
    /channels\.group: all keys may use all channels.*\(claude\)/,
    /channels\.setting: it has no counterpart \(claude\)/,
    /tokens\.allow_ips/,
    /tokens: its user is no more \(or\?phan\)/,
    /tokens\.group/,
    /channels\.key: it is in clear/
  ])
    t.match(made.err, told)
  t.match(await serves(t, file, `sk-${newApiKey}`, 'gpt-ours', {}), { key: 'laptop', project: 'root' })
  t.equal(JSON.parse(upstream.asked[0]!.body.toString()).model, 'their-gpt')
  t.match(upstream.asked[0]!.headers.authorization, /^Bearer sk-up-(?:one|two)$/)
})

t.test('a configuration of LiteLLM with anything in place of a text is imported, or refused in words', (t) => {
  const whole = parse(readFileSync(join(golden, 'simple.yaml'), 'utf8'))
  for (const place of placesOf(whole))
    for (const textless of [{ toString: 0 }, [{ toString: 0 }]]) {
      const fates = new Fates()
      const text = JSON.stringify(changed(whole, place, textless))
      try {
        importConfig(text, new Draft(fates, { free: false, tenant: 'litellm' }), fates)
      } catch (error) {
        t.match(error, { name: 'Error' }, place.join('.'))
      }
    }
  t.end()
})

t.test('a budget whose time has no counterpart lets nobody spend more than before', (t) => {
  for (const [duration, per, exact] of [
    [undefined, 'total', true],
    ['30d', '30d', true],
    ['24h', '1d', true],
    ['1mo', 'month', true],
    ['2w', '14d', true],
    ['1h', '1d', false],
    ['36h', '2d', false],
    ['2mo', '62d', false],
    ['400d', 'total', false],
    ['fortnightly', 'total', false]
  ] as const)
    t.same(budgetOf(1_500_000_000n, duration), { budget: { usd: '1.5', per }, exact }, String(duration))
  t.equal(budgetOf(undefined, '30d'), undefined)
  t.end()
})

t.test('what new-api refuses stays refused', (t) => {
  const imported = (options: string, tokens: string, user = '500000'): Record<string, any>[] => {
    const draft = new Draft(new Fates(), { free: true, tenant: 'acme' })
    const dump = `INSERT INTO channels (id, type, name, models, status) VALUES (1, 1, 'main', 'gpt-4o', 1);
INSERT INTO users (id, username, status, quota) VALUES (1, 'root', 1, ${user});
INSERT INTO options (key, value) VALUES ${options};
INSERT INTO tokens (id, user_id, key, name, status, model_limits_enabled, model_limits, unlimited_quota, remain_quota) VALUES ${tokens};
`
    importNewApi(tablesOfDump(dump), draft, new Fates())
    const { keys, tenants } = parse(draft.text('a dump'))
    return [...keys, tenants.acme.projects.root]
  }
  const [none, gone, odd, root] = imported(
    "('SystemName', 'x')",
    "(1, 1, 'a', 'none', 1, 1, '', 1, 0), (2, 1, 'b', 'gone', 3, 0, '', 0, 5), (3, 1, 'c', 'odd', 1, 0, '', 0, 'many')"
  )
  t.match([none!['enabled'], gone!['enabled'], odd!['budget']], [false, false, { usd: '0' }])
  t.match(root!['budget'], { usd: '1' })
  t.match(imported("('SystemName', 'x')", "(1, 1, 'a', 'one', 1, 0, '', 1, 0)", "'lots'").at(-1)!['budget'], {
    usd: '0'
  })
  for (const odd of ["''", "'0'", "'x'", "'-5'"])
    t.throws(() => imported(`('QuotaPerUnit', ${odd})`, "(1, 1, 'a', 'one', 1, 0, '', 1, 0)"), /QuotaPerUnit/)
  t.end()
})

t.test('words that new-api knows for addresses are these addresses, and each vendor has its path', (t) => {
  const draft = new Draft(new Fates(), { free: true, tenant: 'acme' })
  const wanted = [
    [25, 'kimi-coding-plan', 'https://api.kimi.com/coding/v1', 'moonshot'],
    [26, 'glm-coding-plan', 'https://open.bigmodel.cn/api/coding/paas/v4', 'zhipu'],
    [26, 'glm-coding-plan-international', 'https://api.z.ai/api/coding/paas/v4', 'zhipu'],
    [45, 'doubao-coding-plan', 'https://ark.cn-beijing.volces.com/api/coding/v3', undefined],
    [27, 'https://api.perplexity.ai', 'https://api.perplexity.ai/v1', 'perplexity'],
    [31, '', 'https://api.lingyiwanwu.com/v1', undefined],
    [46, '', 'https://qianfan.baidubce.com/v2', undefined],
    [53, '', 'https://llm.submodel.ai/v1', undefined]
  ] as const
  const rows = wanted.map(([type, url], at) => `(${at + 1}, ${type}, 'c${at}', '${url}', 'm${at}', 1)`)
  importNewApi(
    tablesOfDump(`INSERT INTO channels (id, type, name, base_url, models, status) VALUES ${rows.join(', ')};\n`),
    draft,
    new Fates()
  )
  const { channels } = parse(draft.text('a dump'))
  t.match(
    wanted.map((_, at) => channels[`c${at}`]),
    wanted.map(([, , base_url, preset]) => ({ base_url, preset }))
  )
  t.end()
})

t.test('dumps of MySQL and PostgreSQL say what the database says', (t) => {
  const mysql = [
    '-- MySQL dump 10.13',
    'CREATE TABLE `tokens` (',
    '  `id` bigint NOT NULL AUTO_INCREMENT,',
    "  `key` char(48) DEFAULT '' COMMENT 'a, b (c)',",
    '  `name` varchar(191) DEFAULT NULL,',
    '  PRIMARY KEY (`id`),',
    '  UNIQUE KEY `idx_tokens_key` (`key`)',
    ') ENGINE=InnoDB;',
    "INSERT INTO `tokens` VALUES (1,'abc','it\\'s; (a) \\\\'),(2,'d''ef',NULL);",
    'INSERT INTO `other` VALUES (1);'
  ].join('\n')
  t.same(readDump(mysql, ['tokens']).get('tokens'), [
    { id: '1', key: 'abc', name: "it's; (a) \\" },
    { id: '2', key: "d'ef", name: undefined }
  ])
  const postgres = `INSERT INTO public.tokens (id, key, "group") VALUES (1, 'a\\', 'it''s');\nCOPY public.tokens (id, key, "group") FROM stdin;\n2\ta\\tb\t\\N\n\\.\n`
  t.same(readDump(postgres, ['tokens']).get('tokens'), [
    { id: '1', key: 'a\\', group: "it's" },
    { id: '2', key: 'a\tb', group: undefined }
  ])
  const statement = "INSERT INTO tokens (id) VALUES ('mine');"
  for (const dump of [
    `INSERT INTO users (name) VALUES ('a\n${statement}\n');\nINSERT INTO tokens (id) VALUES ('yours');\n`,
    `INSERT INTO tokens (id) VALUES ('yours');\nINSERT INTO tokens_of_others (id, name) VALUES ('1', 'a\n${statement}');\n`,
    `COPY users (name) FROM stdin;\n\n${statement}\n\\.\nINSERT INTO tokens (id) VALUES ('yours');\n`
  ])
    t.same(readDump(dump, ['tokens']).get('tokens'), [{ id: 'yours' }], 'a text is no statement')
  t.throws(() => readDump('INSERT INTO `tokens` VALUES (1);', ['tokens']), /stand before its columns/)
  t.throws(() => readDump('INSERT INTO tokens (id) VALUES (1, 2);', ['tokens']), /a row of tokens cannot be read/)
  t.throws(() => readDump('INSERT INTO tokens (id) VALUES (1', ['tokens']), /a row of tokens cannot be read/)
  t.end()
})

t.test('what cannot be imported is named, and no file is written over', async (t) => {
  const folder = t.testdir({ 'empty.yaml': 'model_list: []\n', 'none.yaml': 'a: 1\n', 'text.sql': 'nothing\n' })
  for (const [args, message] of [
    [['litellm', join(folder, 'none.yaml')], /none\.yaml is not in this format: it has no model_list/],
    [['litellm', join(folder, 'empty.yaml')], /empty\.yaml has no model that can be served/],
    [
      ['litellm', join(golden, 'providers.yaml'), '--keys', join(folder, 'text.sql')],
      /text\.sql is not in this format/
    ],
    [['litellm', join(golden, 'providers.yaml'), '--models', 'a'], /--models is for a price file/],
    [['new-api', join(folder, 'text.sql')], /text\.sql is not in this format: it has no rows of the table channels/],
    [['new-api', join(folder, 'missing.db')], /missing\.db cannot be read: ENOENT/],
    [['litellm', join(golden, 'providers.yaml'), '--free', '--out', join(folder, 'none.yaml')], /is there already/]
  ] as const) {
    const { code, err } = await sluice(['import', ...args])
    t.not(code, 0)
    t.match(err, message)
    t.notMatch(err, /\n {4}at /)
  }
})
