// Makes a gateway.yaml of the database of new-api: its channels, users, tokens and prices, from its SQLite file or from
// a dump of MySQL or PostgreSQL. The tables are those of https://github.com/QuantumNous/new-api (model/*.go), and types
// of channels those of its constant/channel.go.
import { DatabaseSync } from 'node:sqlite'
import { exactly, written } from '../../../config/prices/decimal.ts'
import { isMap } from '../../options/schema-check.ts'
import { budgetOf, nanoOf } from './budget.ts'
import { literal, sha256Of } from './draft.ts'
import type { Draft, Entry } from './draft.ts'
import type { Fates } from './fates.ts'
import { hostOf, isOwn } from './litellm-upstream.ts'
import types from './new-api-types.json' with { type: 'json' }
import { readDump } from './sql-dump.ts'
import type { Row } from './sql-dump.ts'

/** What a type of channels is. */
interface ChannelType {
  readonly preset?: string
  /** Its address, where that is another one than the preset's. */
  readonly base_url?: string
  /** `openai` unless said. */
  readonly protocol?: string
  /** What stands behind an address that is given. */
  readonly below: string
  /** Addresses by the words that new-api has for them. */
  readonly named?: Readonly<Record<string, string>>
  /** Where the preset holds; another address is of somebody who speaks the same protocol. */
  readonly home?: string
  /** Whether it has no address of its own. */
  readonly required?: boolean
  /** The parameter of the address that the column `other` is. */
  readonly query?: string
}

const known: Readonly<Record<string, ChannelType>> = types
const tables = ['channels', 'tokens', 'users', 'options'] as const

type Tables = ReadonlyMap<string, readonly Row[]>

/** The tables of a SQLite file. @throws Error when it is none, or is in use */
export function tablesOfDatabase(file: string): Tables {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    const there = new Set(
      database
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
        .all()
        .map(({ name }) => String(name))
    )
    return new Map(
      tables.map((table) => [
        table,
        there.has(table)
          ? database
              .prepare(`SELECT * FROM ${table}`)
              .all()
              .map((row) => Object.fromEntries(Object.entries(row).map(([column, value]) => [column, textIn(value)])))
          : []
      ])
    )
  } finally {
    database.close()
  }
}

function textIn(value: unknown): string | undefined {
  if (value === null) return undefined
  return value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : String(value as string | number | bigint)
}

/** The tables of a dump. @throws Error for one that cannot be read */
export function tablesOfDump(text: string): Tables {
  return readDump(text, tables)
}

/** Reads the tables into the draft. @throws Error when there are no channels */
export function importNewApi(rows: Tables, draft: Draft, fates: Fates): void {
  const channels = rows.get('channels')!
  if (channels.length === 0) throw new Error('it has no rows of the table channels')
  const options = new Map(rows.get('options')!.map((row) => [row['key'], row['value']]))
  const perDollar = Number(options.get('QuotaPerUnit') ?? 500_000)
  if (!(perDollar > 0 && perDollar < Infinity)) throw new Error('its option QuotaPerUnit is no number above 0')
  const highest = Math.max(...channels.map((row) => Number(row['priority'] ?? 0)))
  const prices = new Prices(options)
  for (const row of channels) importChannel(row, highest, prices, draft, fates)
  const users = new Map(
    rows
      .get('users')!
      .filter((row) => row['deleted_at'] === undefined)
      .map((row) => {
        const { budget } = budgetOf(leftOf(row['quota'], perDollar), undefined)!
        const entry = { ...(!isOn(row) && { enabled: false }), budget }
        return [row['id'], draft.project(row['username'] ?? `user-${row['id']}`, entry)]
      })
  )
  for (const row of rows.get('tokens')!)
    if (row['deleted_at'] !== undefined) continue
    else if (users.has(row['user_id'])) importToken(row, users.get(row['user_id'])!, perDollar, draft, fates)
    else fates.dropped('tokens', 'its user is no more', row['name'] || `token-${row['id']}`)
}

function importChannel(row: Row, highest: number, prices: Prices, draft: Draft, fates: Fates): void {
  const name = row['name'] ?? `channel-${row['id']}`
  const type = known[row['type'] ?? '']
  const given = row['base_url']?.trim().replace(/\/+$/, '') ?? ''
  if (!type) return fates.dropped('channels', `its type ${row['type']} has no counterpart`, name)
  if (type.required && given === '') return fates.dropped('channels', 'it has no base_url', name)
  const address = addressOf(type, given)
  // A vendor's preset says what that vendor has, and nothing of another address.
  const other = type.home !== undefined && given !== '' && !given.startsWith(type.home)
  const preset = other ? undefined : type.preset
  const keys = (row['key'] ?? '')
    .split('\n')
    .map((key) => literal(key.trim()))
    .filter((key) => key !== '')
  const unique = [...new Set(keys)]
  const channel: Entry = {
    ...(preset !== undefined && { preset }),
    protocol: type.protocol ?? 'openai',
    ...(address !== undefined && { base_url: literal(address) }),
    ...(address !== undefined && isOwn(address) && { private: true }),
    ...(preset === undefined && { endpoints: ['chat', 'completions', 'embeddings'] }),
    ...(unique.length === 1 && { credential: unique[0] }),
    ...(unique.length > 1 && { credentials: unique }),
    ...(!isOn(row) && { enabled: false }),
    ...(Number(row['weight'] ?? 0) > 0 && { weight: Number(row['weight']) }),
    priority: highest - Number(row['priority'] ?? 0)
  }
  if (type.query !== undefined && row['other']) channel['query'] = { [type.query]: literal(row['other']) }
  if (row['openai_organization']) channel['headers'] = { 'OpenAI-Organization': literal(row['openai_organization']) }
  const mapping = mapIn(row['model_mapping'])
  for (const model of (row['models'] ?? '').split(',').map((one) => one.trim()))
    if (model !== '') {
      const mapped = mapping[model]
      const upstream = typeof mapped === 'string' ? mapped : model
      draft.serve({
        model,
        upstream,
        name: name || hostOf(address ?? ''),
        channel,
        price: prices.of(model),
        sold: [model, upstream]
      })
    }
  const group = row['group']
  if (group !== undefined && group !== '' && group !== 'default')
    fates.dropped('channels.group', 'all keys may use all channels: say which models a key may use', name)
  for (const column of ['status_code_mapping', 'param_override', 'header_override', 'setting', 'settings'])
    if (!/^(?:\{\}|null)?$/.test(row[column]?.trim() ?? ''))
      fates.dropped(`channels.${column}`, 'it has no counterpart', name)
  if (unique.length > 0)
    fates.approximated('channels.key', 'it is in clear in the file: put a variable in its place', name)
}

function addressOf({ base_url: usual, named = {}, below }: ChannelType, given: string): string | undefined {
  if (given === '') return usual
  if (Object.hasOwn(named, given)) return named[given]
  return given.endsWith(below) ? given : `${given}${below}`
}

function importToken(row: Row, project: string, perDollar: number, draft: Draft, fates: Fates): void {
  const secret = (row['key'] ?? '').trim()
  const name = row['name'] || `token-${row['id']}`
  if (secret === '') return fates.dropped('tokens', 'it has no key', name)
  const limited = isTrue(row['model_limits_enabled'])
  const models = limited
    ? (row['model_limits'] ?? '')
        .split(',')
        .map((one) => one.trim())
        .filter((one) => one !== '')
    : []
  const budget = isTrue(row['unlimited_quota'])
    ? undefined
    : budgetOf(leftOf(row['remain_quota'], perDollar), undefined)!.budget
  const expires = Number(row['expired_time'] ?? -1)
  draft.key(name, {
    // Clients write it with sk- in front, and the table has it without.
    key_sha256: sha256Of(secret.startsWith('sk-') ? secret : `sk-${secret}`),
    project,
    // A key that is limited to no models may call none.
    ...((!isOn(row) || (limited && models.length === 0)) && { enabled: false }),
    ...(models.length > 0 && { models }),
    ...(budget && { budget }),
    ...(expires > 0 && { expires: new Date(expires * 1000).toISOString().replace(/\.\d+Z$/, 'Z') })
  })
  if (row['allow_ips']?.trim()) fates.dropped('tokens.allow_ips', 'keys are good from everywhere', name)
  const group = row['group']
  if (group !== undefined && group !== '' && group !== 'default')
    fates.dropped('tokens.group', 'its channels and its ratio are those of all: say which models the key may use', name)
}

/** What its options say of prices: a ratio of 1 is two dollars per million tokens. */
class Prices {
  readonly #ratios: Entry
  readonly #completions: Entry
  readonly #requests: Entry

  constructor(options: ReadonlyMap<string | undefined, string | undefined>) {
    this.#ratios = mapIn(options.get('ModelRatio'))
    this.#completions = mapIn(options.get('CompletionRatio'))
    this.#requests = mapIn(options.get('ModelPrice'))
  }

  of(model: string): Entry | undefined {
    const request = dollars(this.#requests[model], 1)
    if (request !== undefined) return { request }
    const ratio = Number(this.#ratios[model] ?? NaN)
    const input = dollars(ratio, 2)
    const output = dollars(ratio * Number(this.#completions[model] ?? 1), 2)
    return input === undefined || output === undefined ? undefined : { input, output }
  }
}

/** An amount in dollars with at most nine digits behind the point. */
function dollars(value: unknown, times: number): string | undefined {
  const number = Number(value ?? NaN) * times
  const found = Number.isFinite(number) ? exactly(number.toFixed(9)) : undefined
  // `exactly` counts per million units.
  return found && written(found.value / 1_000_000n, 9).replaceAll('"', '')
}

function mapIn(text: string | undefined): Entry {
  try {
    const value: unknown = JSON.parse(text ?? '')
    return isMap(value) ? value : {}
  } catch {
    return {}
  }
}

/** What is left of a quota, in nano-dollars; nothing of one that is no number. */
function leftOf(quota: string | undefined, perDollar: number): bigint {
  return nanoOf(Number(quota ?? 0) / perDollar) ?? 0n
}

function isOn({ status }: Row): boolean {
  return status === undefined || status === '1'
}

function isTrue(text: string | undefined): boolean {
  return text !== undefined && /^(?:1|t|true)$/i.test(text)
}
