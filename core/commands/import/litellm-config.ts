// Makes a gateway.yaml of a config.yaml of LiteLLM's proxy: https://docs.litellm.ai/docs/proxy/config_settings
import { parse } from 'yaml'
import { exactly, written } from '../../../config/prices/decimal.ts'
import { isMap } from '../../options/schema-check.ts'
import { budgetOf, longer, nanoOf } from './budget.ts'
import { sha256Of } from './draft.ts'
import type { Draft, Entry } from './draft.ts'
import type { Fates } from './fates.ts'
import { take, textOf, upstreamOf, wordOf } from './litellm-upstream.ts'

const least = 1

/** Reads the file into the draft. @throws Error when it is no such file */
export function importConfig(text: string, draft: Draft, fates: Fates): void {
  const file: unknown = parse(text)
  if (!isMap(file)) throw new Error('it is no map of settings')
  const rest: Entry = { ...file }
  const router = mapOf(take(rest, 'router_settings'))
  const module = mapOf(take(rest, 'litellm_settings'))
  const general = mapOf(take(rest, 'general_settings'))
  const list = take(rest, 'model_list')
  if (!Array.isArray(list)) throw new Error('it has no model_list')
  const total = seconds(take(module, 'request_timeout') ?? take(router, 'timeout'))
  for (const one of list as unknown[]) importDeployment(mapOf(one), draft, fates, total)
  importFallbacks(module, router, draft, fates)
  importRetries(module, router, draft, fates)
  const most = take(module, 'max_budget')
  const made = budgetOf(nanoOf(most), take(module, 'budget_duration'))
  if (made) draft.tenantEntry['budget'] = made.budget
  else if (most !== undefined) throw new Error('litellm_settings.max_budget is no amount of dollars')
  if (made?.exact === false) fates.approximated('litellm_settings.max_budget', longer)
  importMaster(take(general, 'master_key'), draft, fates)
  for (const name of Object.keys(mapOf(take(rest, 'environment_variables'))))
    fates.dropped('environment_variables', 'set it in the environment of the gateway', name)
  const left: [string, Entry][] = [
    ['router_settings.', router],
    ['litellm_settings.', module],
    ['general_settings.', general],
    ['', rest]
  ]
  for (const [where, settings] of left)
    for (const name of Object.keys(settings))
      fates.dropped(`${where}${name}`, counterparts[name] ?? 'it has no counterpart')
}

/** What is there in the place of settings that are not taken over. */
const counterparts: Readonly<Record<string, string>> = {
  drop_params: 'what an upstream cannot take is left out and named in x-sluice-dropped, unless the model is strict',
  success_callback: 'see docs/TELEMETRY.md',
  failure_callback: 'see docs/TELEMETRY.md',
  callbacks: 'see docs/TELEMETRY.md',
  cache: 'answers are not kept for other requests',
  cache_params: 'answers are not kept for other requests',
  database_url: 'give a dump of it with --keys; the store is that of the gateway',
  database_connection_pool_limit: 'the store is that of the gateway',
  redis_host: 'limits are kept by the gateway',
  redis_port: 'limits are kept by the gateway',
  redis_password: 'limits are kept by the gateway',
  store_model_in_db: 'models stand in gateway.yaml',
  set_verbose: 'see the plugin log',
  json_logs: 'each line of the log is JSON',
  alerting: 'budgets have alerts: alerts.url',
  allowed_fails: 'see route.eject_after',
  cooldown_time: 'see plugins/route/README.md',
  guardrails: 'write a plugin: plugins/README.md',
  mcp_servers: 'tools of MCP servers are the affair of clients'
}

function importDeployment(entry: Entry, draft: Draft, fates: Fates, timeout: string | undefined): void {
  const model = wordOf(entry['model_name'])
  const params = { ...mapOf(entry['litellm_params']) }
  const info = { ...mapOf(entry['model_info']) }
  if (wordOf(params['model']) === '') return fates.dropped('model_list', 'an entry has no litellm_params.model', model)
  if (model === '*') return fates.dropped('model_list', 'a pattern needs letters in front of its *', model)
  const upstream = upstreamOf(params, info['mode'], fates, model)
  take(params, 'model')
  if (typeof upstream === 'string') return fates.dropped('model_list', upstream, model)
  const { channel } = upstream
  const total = seconds(take(params, 'timeout')) ?? timeout
  const first = seconds(take(params, 'stream_timeout'))
  if (total ?? first) channel['timeouts'] = { ...(first && { first_byte: first }), ...(total && { total }) }
  const weight = take(params, 'weight')
  if (typeof weight === 'number' && Number.isInteger(weight) && weight >= 0) channel['weight'] = weight
  const order = take(params, 'order')
  if (typeof order === 'number' && Number.isInteger(order) && order >= 0) channel['priority'] = order
  const limits = limitsOf(params, 'rpm', 'tpm', 'max_parallel_requests')
  if (limits) channel['limits'] = model.endsWith('*') ? limits : { models: { [model]: limits } }
  const price = priceOf({ ...info, ...params })
  const base = params['base_model'] ?? info['base_model']
  for (const name of [...priced, 'base_model']) take(params, name)
  const sold = [
    ...(typeof base === 'string' ? [base, base.slice(base.lastIndexOf('/') + 1)] : []),
    upstream.model,
    model
  ]
  const served = draft.serve({ model, upstream: upstream.model, name: upstream.name, channel, price, sold })
  if (!served) return
  for (const name of Object.keys(params))
    fates.dropped(`litellm_params.${name}`, 'parameters of requests are the affair of clients', model)
  for (const name of ['id', 'mode', 'base_model', ...priced]) take(info, name)
  for (const name of Object.keys(info)) fates.dropped(`model_info.${name}`, 'it has no counterpart', model)
}

/** Limits as the file has them; undefined when there is none. They are taken from `from`. */
export function limitsOf(from: Entry, rpm: string, tpm: string, concurrency: string): Entry | undefined {
  const limits: Entry = {}
  for (const [name, source] of Object.entries({ rpm, tpm, concurrency })) {
    const value = Number(wordOf(take(from, source)))
    if (Number.isInteger(value) && value >= least) limits[name] = value
  }
  return Object.keys(limits).length > 0 ? limits : undefined
}

const classes: Readonly<Record<string, string>> = {
  input_cost_per_token: 'input',
  output_cost_per_token: 'output',
  cache_read_input_token_cost: 'cached_input',
  cache_creation_input_token_cost: 'cache_write'
}
const priced = Object.keys(classes)

/** The price of `model_info` or `litellm_params`, in dollars per million tokens. */
function priceOf(from: Entry): Entry | undefined {
  const price: Entry = {}
  for (const [field, name] of Object.entries(classes)) {
    const value = exactly(from[field] === undefined ? undefined : wordOf(from[field]))
    if (value) price[name] = written(value.value, 9).replaceAll('"', '')
  }
  return price['input'] === undefined && price['output'] === undefined ? undefined : price
}

function importFallbacks(module: Entry, router: Entry, draft: Draft, fates: Fates): void {
  for (const [model, target] of Object.entries(mapOf(take(router, 'model_group_alias')))) {
    const to: unknown = isMap(target) ? target['model'] : target
    draft.alias(model, wordOf(to))
  }
  for (const [name, occasion] of [
    ['fallbacks', 'failure'],
    ['context_window_fallbacks', 'context'],
    ['content_policy_fallbacks', 'filter']
  ] as const) {
    const lists = [take(module, name), take(router, name)].flatMap((list) => (Array.isArray(list) ? list : []))
    for (const one of lists as unknown[])
      for (const [model, others] of Object.entries(mapOf(one)))
        draft.fallback(name, model, Array.isArray(others) ? others.map(wordOf) : [], occasion)
  }
  if (take(module, 'default_fallbacks') !== undefined || take(router, 'default_fallbacks') !== undefined)
    fates.dropped('default_fallbacks', 'each model names its own stand-ins: models.<name>.fallback')
}

function importRetries(module: Entry, router: Entry, draft: Draft, fates: Fates): void {
  const retries = take(router, 'num_retries') ?? take(module, 'num_retries')
  if (typeof retries === 'number' && retries >= 0) draft.route['attempts'] = Math.min(10, retries + 1)
  const strategy = take(router, 'routing_strategy')
  if (strategy !== undefined && strategy !== 'simple-shuffle')
    fates.approximated('router_settings.routing_strategy', `${wordOf(strategy)} becomes chance by weight`)
}

/** The key of whoever administers the proxy: here it may call, and nothing more. */
function importMaster(value: unknown, draft: Draft, fates: Fates): void {
  if (typeof value !== 'string') return
  const text = textOf(value)!
  if (text.startsWith('${')) draft.key('master', { key: text })
  else if (value.startsWith('sk-')) draft.key('master', { key_sha256: sha256Of(value) })
  else return fates.dropped('general_settings.master_key', 'keys begin with sk-')
  fates.approximated('general_settings.master_key', 'it may call, and administers nothing: see "sluice operators"')
}

function seconds(value: unknown): string | undefined {
  return typeof value === 'number' && value > 0 ? `${Math.round(value * 1000)}ms` : undefined
}

function mapOf(value: unknown): Entry {
  return isMap(value) ? { ...value } : {}
}
