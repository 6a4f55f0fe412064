// The gateway.yaml that an import makes: channels, models, tenants and keys, put together and written.
import { createHash } from 'node:crypto'
import { stringify } from 'yaml'
import { modelKeys, names } from '../../../config/names.ts'
import { isOwnPreset } from '../../../config/presets/presets.ts'
import { findListed } from '../../../config/prices/price-list.ts'
import type { Fates } from './fates.ts'
import { answering, trimStandIns } from './stand-ins.ts'

/** Entries of a section, as the file has them. */
export type Entry = Record<string, unknown>

/** What one upstream is to serve a model by. */
export interface Deployment {
  /** The public name. */
  readonly model: string
  /** The upstream's name for it. */
  readonly upstream: string
  /** What the channel is called, unless another one has the name. */
  readonly name: string
  /** The channel without its models. Deployments with the same one share a channel. */
  readonly channel: Entry
  /** The price as the file has it; undefined where the source has none. */
  readonly price?: Entry | undefined
  /** The names by which the source would look for a price, the first one that has one counting. */
  readonly sold: readonly string[]
}

const nameForm = new RegExp(names.pattern, 'u')
const modelForm = new RegExp(modelKeys.pattern, 'u')

/** The SHA-256 of a secret that clients have, as keys of the file tell it. */
export function sha256Of(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/** A text of the source as the file has to say it, where a dollar sign begins a variable. */
export function literal(text: string): string {
  return text.replaceAll('$', '$$$$')
}

/** One of them, while it is made. */
export class Draft {
  readonly #channels: { name: string; mark: string; entry: Entry; models: Map<string, string> }[] = []
  readonly #models = new Map<string, Entry>()
  /** The prices in the public list of the models that have those. */
  readonly #listed = new Map<string, object>()
  readonly #projects = new Map<string, Entry>()
  readonly #keys = new Map<string, Entry>()
  readonly #fates: Fates
  readonly #free: boolean
  readonly tenant: string
  /** What the tenant is, beside its projects. */
  readonly tenantEntry: Entry = {}
  /** Options of `route`. */
  readonly route: Entry = {}

  /** `free`: whether models whose price nobody knows cost nothing. Otherwise they are left out. */
  constructor(fates: Fates, { free, tenant }: { free: boolean; tenant: string }) {
    this.#fates = fates
    this.#free = free
    this.tenant = tenant
  }

  get counts(): { channels: number; models: number; projects: number; keys: number } {
    const { size: models } = this.#models
    return { channels: this.#channels.length, models, projects: this.#projects.size, keys: this.#keys.size }
  }

  has(model: string): boolean {
    return this.#models.has(model)
  }

  /** Adds a way to a model; false when it was left out, which was told. */
  serve({ model, upstream, name, channel, price, sold }: Deployment): boolean {
    if (!modelForm.test(model)) {
      this.#fates.dropped('model', `its name is not ${modelKeys.patternErrorMessage}`, model)
      return false
    }
    const known = this.#models.get(model)
    const pattern = model.endsWith('*')
    const listed = pattern || isOwn(channel) ? undefined : listedPrice(sold)
    const own = known?.['price'] ?? price ?? this.#priceOf(model, listed, isOwn(channel))
    if (own === undefined) {
      const how =
        'nobody knows its price: give it there and import again, or say --free, by which such models cost nothing'
      this.#fates.dropped('model', how, model)
      return false
    }
    const isOther = price
      ? JSON.stringify(known?.['price']) !== JSON.stringify(price)
      : own === 'list' && listed !== this.#listed.get(model)
    if (known && isOther)
      this.#fates.approximated('price', 'that of the first way to the model is taken for all', model)
    const mark = JSON.stringify(channel)
    let home = this.#channels.find(
      (one) => one.mark === mark && (pattern || (one.models.get(model) ?? upstream) === upstream)
    )
    if (!home) {
      home = { name: this.#channelName(name), mark, entry: channel, models: new Map() }
      this.#channels.push(home)
    }
    if (pattern) {
      if (known) this.#fates.dropped('model', 'a pattern has one channel, and the first is taken', model)
      else
        this.#models.set(model, { channel: home.name, upstream: upstream.includes('*') ? upstream : '*', price: own })
      return !known
    }
    home.models.set(model, literal(upstream))
    if (known) return true
    this.#models.set(model, { price: own })
    if (own === 'list') this.#listed.set(model, listed!)
    return true
  }

  /** Another name of a model. */
  alias(name: string, model: string): void {
    if (!this.has(model)) this.#fates.dropped('alias', `there is no model ${model}`, name)
    else if (this.has(name)) this.#fates.dropped('alias', 'a model is called so too', name)
    else if (modelForm.test(name)) this.#models.set(name, { alias: model })
    else this.#fates.dropped('alias', `it is not ${modelKeys.patternErrorMessage}`, name)
  }

  /** Other models that stand in for one, on `occasion`. */
  fallback(
    setting: string,
    model: string,
    others: readonly string[],
    occasion: 'failure' | 'context' | 'filter'
  ): void {
    const entry = this.#models.get(model)
    if (!entry || 'alias' in entry || model.endsWith('*'))
      return this.#fates.dropped(setting, 'only models that the file lists by name have stand-ins', model)
    const list = [...((entry['fallback'] as string[] | undefined) ?? [])]
    const occasions = new Set((entry['fallback_on'] as string[] | undefined) ?? [])
    for (const other of others) {
      const why = this.#whyNot(model, other)
      if (why) this.#fates.dropped(setting, `${other} ${why}`, model)
      else if (!list.includes(other)) list.push(other)
    }
    if (list.length === 0) return
    if (occasions.size > 0 && !occasions.has(occasion))
      this.#fates.approximated(setting, 'all stand-ins of a model are asked on each of its occasions', model)
    entry['fallback'] = list
    entry['fallback_on'] = [...occasions.add(occasion)]
  }

  /** A project of the tenant. Returns its name, which is another one where the given one is none or is taken. */
  project(name: string, entry: Entry): string {
    return this.#put(this.#projects, name, entry)
  }

  /** A key of the tenant. Without a secret or its hash there is none. */
  key(name: string, entry: Entry): void {
    const hash = entry['key_sha256']
    const same = hash !== undefined && [...this.#keys].find(([, other]) => other['key_sha256'] === hash)
    if (same) this.#fates.dropped('key', `it has the same secret as ${same[0]}`, name)
    else this.#put(this.#keys, name, entry)
  }

  /** The file. `source`: what it was made of. */
  text(source: string): string {
    this.#writePrices()
    trimStandIns(this.#models, this.#listed, this.#fates)
    for (const entry of this.#models.values()) {
      const on = entry['fallback_on'] as string[] | undefined
      if (on?.length === 1 && on[0] === 'failure') delete entry['fallback_on']
    }
    const channels = this.#channels.filter(
      ({ name, models }) => models.size > 0 || [...this.#models.values()].some((one) => one['channel'] === name)
    )
    const projects = Object.fromEntries(this.#projects)
    const plugins: [string, Entry][] = [
      ['auth', {}],
      ['quota', {}],
      ['ratelimit', {}],
      ['route', this.route],
      ['protocol-translate', {}],
      ['usage-meter', {}],
      ['log', { sink: 'stdout', bodies: false }]
    ]
    const file = {
      listen: { host: '127.0.0.1', port: 8080 },
      admin: { host: '127.0.0.1', port: 9090, token: '${SLUICE_ADMIN_TOKEN:-}' },
      store: { sqlite: './data/sluice.db' },
      channels: Object.fromEntries(
        channels.map(({ name, entry, models }) => [name, { ...entry, models: Object.fromEntries(models) }])
      ),
      models: Object.fromEntries(this.#models),
      tenants: { [this.tenant]: { ...this.tenantEntry, ...(this.#projects.size > 0 && { projects }) } },
      keys: Array.from(this.#keys, ([name, entry]) => ({ name, tenant: this.tenant, ...entry })),
      chain: plugins.map(([name, options]) => ({ [name]: options }))
    }
    return `# Made of ${source} by "sluice import". Try it with "sluice check"; what has no counterpart was told then.\n${stringify(file, { lineWidth: 0 })}`
  }

  #priceOf(model: string, listed: object | undefined, own: boolean): unknown {
    if (own) return 'free'
    if (listed) return 'list'
    if (!this.#free) return undefined
    this.#fates.approximated('price', 'nobody knows it, so it costs nothing (--free): no budget counts it', model)
    return 'free'
  }

  /** Writes the price itself where `list` would mean that of something else that has the name of the model. */
  #writePrices(): void {
    for (const [name, price] of this.#listed) {
      const upstream = this.#channels.flatMap(({ models }) => models.get(name) ?? [])
      if (findListed({ name, upstream }) !== price) this.#models.get(name)!['price'] = structuredClone(price)
    }
  }

  #whyNot(model: string, other: string): string | undefined {
    if (other === model) return 'is the model itself'
    if (!this.has(other) || other.endsWith('*')) return 'is no model of this file'
    return answering(this.#models, other).has(model) ? 'leads back to the model' : undefined
  }

  #channelName(name: string): string {
    const proper = properName(name)
    const taken = (one: string): boolean => this.#channels.some((channel) => channel.name === one)
    return free(proper, taken)
  }

  #put(entries: Map<string, Entry>, name: string, entry: Entry): string {
    const made = free(properName(name), (one) => entries.has(one))
    if (made !== name)
      this.#fates.approximated('name', 'it is another one here, as it was taken or is none', `${name}: ${made}`)
    entries.set(made, entry)
    return made
  }
}

/** The price in the public list of the first of these names that is there. */
function listedPrice(names: readonly string[]): object | undefined {
  return names.map((name) => findListed({ name, upstream: [] })).find((price) => typeof price === 'object')
}

/** Whether nobody charges for it. */
function isOwn({ private: own, preset }: Entry): boolean {
  return own === true || (typeof preset === 'string' && isOwnPreset(preset))
}

function free(name: string, taken: (name: string) => boolean): string {
  let made = name
  for (let n = 2; taken(made); n++) made = `${name}-${n}`
  return made
}

function properName(name: string): string {
  const made = name
    .replaceAll(/[^\p{L}\p{N}._@+-]+/gu, '-')
    .replace(/^[^\p{L}\p{N}]+/u, '')
    .slice(0, 100)
  return nameForm.test(made) ? made : 'unnamed'
}
