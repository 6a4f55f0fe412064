// One model: its limits, price, channels and deprecation, and all versions of its price.
import { get } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { ComponentChildren, VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Money } from '../../parts/money.ts'
import { counted, percent } from '../../parts/number.ts'
import { Panel } from '../../parts/panel.ts'
import { When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import type { Tone } from '../../parts/status.ts'
import { Id, Text } from '../../parts/text.ts'
import { linkTo } from '../../router.ts'
import { ownTenant } from '../../session.ts'
import { rateOf, unitOf } from './rates.ts'

/** Rates in US dollars for 1,000,000 units, by class. */
export type Rates = Readonly<Record<string, string>>

/** A price as the API shows it. */
export interface Price {
  readonly from?: string | null
  readonly version: string
  readonly free: boolean
  readonly usd_per_million: Rates
  readonly tiers: readonly { above: number; usd_per_million: Rates }[]
  readonly pictures: readonly { size: string | null; quality: string | null; usd_per_million: Rates }[]
  readonly service_tiers: readonly { name: string; usd_per_million: Rates }[]
}

/** A channel behind a model. */
interface Behind {
  readonly name: string
  readonly protocol: string
  readonly upstream_model: string
  readonly priority: number
  readonly weight: number
  readonly state: string
  readonly reason: string | null
  readonly error_rate: number | null
  readonly first_event_ms: { readonly p50: number; readonly p95: number } | null
  readonly cost_usd_per_million: Rates | null
}

/** A model as the API lists it. Actors of one tenant see no channels. */
export interface Model {
  readonly name: string
  readonly kind: 'model' | 'name' | 'pattern'
  /** Of a pattern: each of its models has the public price of its own. */
  readonly price_by_name: boolean
  readonly owned_by: string
  readonly endpoints: readonly string[]
  readonly context_window: number | null
  readonly max_output_tokens: number | null
  readonly price: Price | null
  readonly next: Price | null
  readonly deprecated: { since: string; sunset: string | null; replacement: string | null } | null
  readonly requests: number
  readonly charge_nano: string
  readonly usage: Readonly<Record<string, number>>
  readonly channels?: readonly Behind[]
  /** The models that may answer, in order; null where it alone does. */
  readonly asked?: readonly string[] | null
  readonly fallback_on?: readonly string[] | null
}

interface Version {
  readonly version: string
  readonly in_file: string | null
  readonly from: string | null
  readonly until: string | null
  readonly first_charged: string | null
  readonly last_charged: string | null
  readonly requests: number
  readonly charge_nano: string
  readonly price: Price | null
}

/** What stands under a name that is no model of its own, in a word; nothing for a model. */
export function kindOf({ kind, asked }: Pick<Model, 'kind' | 'asked'>): VNode | null {
  if (kind === 'model') return null
  return h(Status, { tone: 'idle' }, kind === 'pattern' ? 'pattern' : asked?.length === 1 ? 'alias' : 'name')
}

/** When a model goes, in a word; nothing when it stays. */
export function retirementOf({ deprecated }: Pick<Model, 'deprecated'>): VNode | null {
  if (!deprecated) return null
  const { since, sunset } = deprecated
  const now = Date.now()
  const over = sunset !== null && Date.parse(sunset) <= now
  const tone: Tone = over ? 'bad' : Date.parse(since) <= now ? 'warn' : 'idle'
  return h(Status, { tone }, sunset === null ? 'deprecated' : `${over ? 'gone since' : 'until'} ${sunset.slice(0, 10)}`)
}

/** The panel beside the table. */
export function ModelPanel({ name }: { name: string }): VNode {
  const tenant = ownTenant.value
  const loaded = useLoad(
    (signal) =>
      get<Model & { prices: readonly Version[] }>(`/admin/v1/models/${encodeURIComponent(name)}`, { tenant }, signal),
    [name, tenant]
  )
  return h(
    Panel,
    { label: `Model ${name}`, back: linkTo('models') },
    html`
      <div class="dialog-head">
        <h2>${h(Text, { text: name, most: 60 })}</h2>
        <a class="button plain small" href=${linkTo('models')} aria-label="Close">✕</a>
      </div>
      ${h(When<Model & { prices: readonly Version[] }>, { loaded, children: (model) => h(Facts, { model }) })}
    `
  )
}

function Facts({ model }: { model: Model & { prices: readonly Version[] } }): VNode {
  const { deprecated, price, next, channels } = model
  const units = Object.entries(model.usage).filter(([, count]) => count > 0)
  return html`
    ${
      deprecated
        ? html`<div class="notice warn">
            <p>
              Deprecated since
              ${deprecated.since.slice(0, 10)}${
                deprecated.sunset ? `, and announced to end on ${deprecated.sunset.slice(0, 10)}` : ''
              }.
              ${
                deprecated.replacement
                  ? html`Use
                      <a href=${linkTo('models', [deprecated.replacement])}
                        >${h(Text, { text: deprecated.replacement })}</a
                      >
                      instead.`
                  : null
              }
            </p>
          </div>`
        : null
    }
    <dl>
      <dt>Owner</dt>
      <dd>${h(Text, { text: model.owned_by })}</dd>
      <dt>Endpoints</dt>
      <dd>${model.endpoints.join(', ')}</dd>
      <dt>Context</dt>
      <dd>${model.context_window === null ? 'not said' : `${counted(model.context_window)} tokens`}</dd>
      <dt>Longest answer</dt>
      <dd>${model.max_output_tokens === null ? 'not said' : `${counted(model.max_output_tokens)} tokens`}</dd>
      ${
        model.kind === 'pattern'
          ? html`<dt>Stands for</dt>
              <dd>${model.name.endsWith('*') ? 'all names that begin so and that the file does not list' : 'a name of a pattern'}</dd>`
          : null
      }
      ${
        model.asked
          ? html`<dt>${model.asked.length === 1 ? 'Stands for' : 'Asked in order'}</dt>
              <dd>
                ${model.asked.map((name) => html`<a href=${linkTo('models', [name])}>${h(Text, { text: name })}</a> `)}
                ${
                  model.asked.length === 1
                    ? null
                    : html`<span class="quiet">the next one on ${(model.fallback_on ?? []).join(', ')}</span>`
                }
              </dd>`
          : null
      }
      <dt>Last 7 days</dt>
      <dd>
        ${`${counted(model.requests)} ${model.requests === 1 ? 'request' : 'requests'}, `}${h(Money, { nano: model.charge_nano })}
        ${units.length === 0 ? null : html`<br /><span class="quiet">${units.map(([unit, count]) => `${counted(count)} ${unit}`).join(', ')}</span>`}
      </dd>
    </dl>
    <h3>Price in force</h3>
    ${
      price
        ? h(PriceTable, { price, name: 'Price in force' })
        : html`<p class="quiet">
            ${
              model.price_by_name
                ? 'The public price of each model: one that is not in the list is refused.'
                : 'None yet: requests are refused until one is.'
            }
          </p>`
    }
    ${
      next
        ? html`<h3>From ${(next.from ?? '').slice(0, 10)}</h3>
            ${h(PriceTable, { price: next, name: 'Price to come' })}`
        : null
    }
    ${channels ? h(Channels, { channels }) : null}
    <h3>All versions of the price</h3>
    ${h(Versions, { versions: model.prices })}
    <p>
      <a href=${linkTo('models', [], { view: 'compare', model: model.name })}
        >What its traffic would have cost elsewhere</a
      >
    </p>
  `
}

/** A table in a panel, which scrolls in its own box. */
function Small({ name, head, rows }: { name: string; head: readonly string[]; rows: ComponentChildren }): VNode {
  return html`<div class="table-box" role="region" tabindex="0" aria-label=${name}>
    <table>
      <thead>
        <tr>
          ${head.map((title) => html`<th scope="col">${title}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows}
      </tbody>
    </table>
  </div>`
}

function PriceTable({ price, name }: { price: Price; name: string }): VNode {
  if (price.free) return html`<p>Free.</p>`
  const row = (what: string, name: string, rate: string): VNode =>
    html`<tr>
      <td>${what}</td>
      <td class="end">${rateOf(name, rate)}</td>
      <td>${unitOf(name)}</td>
    </tr>`
  const changed = (rates: Rates, what: string): VNode[] =>
    Object.entries(rates)
      .filter(([name, rate]) => rate !== price.usd_per_million[name])
      .map(([name, rate]) => row(`${name}, ${what}`, name, rate))
  return h(Small, {
    name,
    head: ['Class', 'US dollars', 'for'],
    rows: [
      ...Object.entries(price.usd_per_million).map(([name, rate]) => row(name, name, rate)),
      ...price.tiers.flatMap((tier) => changed(tier.usd_per_million, `prompts above ${counted(tier.above)} tokens`)),
      ...price.pictures.flatMap((one) =>
        changed(one.usd_per_million, [one.size, one.quality].filter((part) => part !== null).join(' '))
      ),
      ...price.service_tiers.flatMap((one) => changed(one.usd_per_million, `service tier ${one.name}`))
    ]
  })
}

const tones: Readonly<Record<string, Tone>> = { healthy: 'good', ejected: 'bad', off: 'idle', draining: 'idle' }

function Channels({ channels }: { channels: readonly Behind[] }): VNode {
  const cost = ({ cost_usd_per_million: rates }: Behind): string =>
    rates === null
      ? 'not known'
      : Object.entries(rates)
          .filter(([name]) => name === 'input' || name === 'output')
          .map(([name, rate]) => `${name} ${rateOf(name, rate)}`)
          .join(', ') || 'by other classes'
  return html`
    <h3>Channels behind it</h3>
    ${h(Small, {
      name: 'Channels',
      head: [
        'Channel',
        'State',
        'Upstream name',
        'Priority',
        'Weight',
        'Failed, 5 min',
        'First event p50',
        'It charges'
      ],
      rows: channels.map(
        (channel) =>
          html`<tr>
            <td><a href=${linkTo('channels', [channel.name])}>${h(Text, { text: channel.name, most: 30 })}</a></td>
            <td>${h(Status, { tone: tones[channel.state] ?? 'warn' }, channel.state)}</td>
            <td>${h(Text, { text: channel.upstream_model, most: 40 })}</td>
            <td class="end">${channel.priority}</td>
            <td class="end">${channel.weight}</td>
            <td class="end">${channel.error_rate === null ? '–' : percent(channel.error_rate)}</td>
            <td class="end">${channel.first_event_ms === null ? '–' : `${channel.first_event_ms.p50} ms`}</td>
            <td>${cost(channel)}</td>
          </tr>`
      )
    })}
  `
}

function Versions({ versions }: { versions: readonly Version[] }): VNode {
  const when = ({ in_file: place, from, until }: Version): string => {
    if (place === null) return 'not in the file any more'
    const dates = [from && `from ${from.slice(0, 10)}`, until && `until ${until.slice(0, 10)}`].filter(Boolean)
    return [place === 'price' ? 'in the file' : place, ...dates].join(', ')
  }
  const rates = (price: Price | null): string =>
    !price
      ? 'not known'
      : price.free
        ? 'free'
        : Object.entries(price.usd_per_million)
            .filter(([name]) => !/^(cache|audio|image_)/.test(name))
            .map(([name, rate]) => `${name} ${rateOf(name, rate)}`)
            .join(', ')
  return h(Small, {
    name: 'Versions of the price',
    head: ['Version', 'Where', 'Rates', 'Charged', 'Requests', 'Amount'],
    rows: versions.map(
      (version) =>
        html`<tr>
          <td>${h(Id, { id: version.version })}</td>
          <td>${when(version)}</td>
          <td>${rates(version.price)}</td>
          <td>
            ${
              version.first_charged === null
                ? html`<span class="quiet">never</span>`
                : `${version.first_charged} to ${version.last_charged ?? ''} (UTC)`
            }
          </td>
          <td class="end">${counted(version.requests)}</td>
          <td class="end">${h(Money, { nano: version.charge_nano })}</td>
        </tr>`
    )
  })
}
