// The overview: what is wrong now, and how much goes through, live and over time.
import { counted, duration, percent, perSecond, short } from '../../parts/number.ts'
import { get } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { connection, paused, resets, ticks, useLive } from '../../live.ts'
import { useLoad } from '../../load.ts'
import { Chart } from '../../parts/chart.ts'
import { Head } from '../../parts/head.ts'
import { Money, shortMoney } from '../../parts/money.ts'
import { Failure, Waiting } from '../../parts/states.ts'
import { address, linkTo, setQuery } from '../../router.ts'
import { ownTenant } from '../../session.ts'
import { Connection } from './connection.ts'
import { ofPoints, ofTicks } from './figures.ts'
import type { Figures, Overview } from './figures.ts'
import { Troubles } from './troubles.ts'

/** The ranges that can be chosen, each with its milliseconds; the first one is live. */
const ranges: readonly (readonly [id: string, title: string, ms: number])[] = [
  ['live', 'Live, 5 minutes', 0],
  ['1h', 'Last hour', 3_600_000],
  ['24h', 'Last 24 hours', 86_400_000],
  ['7d', 'Last 7 days', 7 * 86_400_000],
  ['30d', 'Last 30 days', 30 * 86_400_000]
]

/** The page. */
export default function OverviewPage(): VNode {
  const { query } = address.value
  const tenant = ownTenant.value ?? query.get('tenant') ?? undefined
  const model = query.get('model') ?? undefined
  const channel = query.get('channel') ?? undefined
  const selected = model !== undefined || channel !== undefined
  const chosen = ranges.find(([id]) => id === query.get('range')) ?? (selected ? ranges[1]! : ranges[0]!)
  useLive(tenant)
  // The stream tells models and channels not apart.
  const live = chosen[2] === 0 && !selected
  return html`
    ${h(
      Head,
      { title: 'Overview', about: whose(tenant, model, channel) },
      html`<select
          aria-label="Range"
          value=${chosen[0]}
          onChange=${(event: Event) => setQuery({ range: (event.target as HTMLSelectElement).value })}
        >
          ${ranges.map(([id, title]) => (id === 'live' && selected ? null : html`<option value=${id}>${title}</option>`))}
        </select>
        ${h(Connection, {})}`
    )}
    ${h(Troubles, {})}
    ${live ? h(Shown, { figures: ofTicks(ticks.value), stale: paused.value || connection.value?.connected === false }) : h(Past, { tenant, model, channel, ms: chosen[2] || 3_600_000 })}
    <p class="chips">
      <a class="chip" href=${linkTo('requests', [], { tenant })}>The requests</a>
      <a class="chip" href=${linkTo('spend', [], { tenant })}>Spend</a>
    </p>
  `
}

function whose(tenant: string | undefined, model: string | undefined, channel: string | undefined): string {
  const parts = [tenant && `the tenant ${tenant}`, model && `the model ${model}`, channel && `the channel ${channel}`]
  const named = parts.filter((part) => part !== undefined && part !== '')
  return named.length === 0 ? 'All that goes through the gateway.' : `What goes through for ${named.join(', ')}.`
}

interface PastProps {
  tenant: string | undefined
  model: string | undefined
  channel: string | undefined
  ms: number
}

/** Figures over a range that ends now. */
function Past({ tenant, model, channel, ms }: PastProps): VNode {
  const loaded = useLoad(
    (signal) =>
      get<Overview>(
        '/admin/v1/overview',
        { since: new Date(Date.now() - ms).toISOString(), tenant, model, channel },
        signal
      ),
    [tenant, model, channel, ms, resets.value],
    { keep: true }
  )
  if (loaded.error) return h(Failure, { error: loaded.error, again: loaded.again })
  return loaded.data ? h(Shown, { figures: ofPoints(loaded.data), stale: loaded.busy }) : h(Waiting, {})
}

/** Tiles and charts. `stale`: they are not of now. */
function Shown({ figures, stale }: { figures: Figures; stale: boolean }): VNode {
  const { total, seconds, times } = figures
  const rate = seconds > 0 ? total.requests / seconds : 0
  const highest = Math.max(0, ...figures.requests.map((value) => value ?? 0))
  const share = total.requests === 0 ? 0 : total.errors / total.requests
  const codes = Object.entries(total.codes).sort(([, one], [, other]) => other - one)
  return html`
    <div class=${stale ? 'stale' : ''}>
      <dl class="tiles">
        ${tile('Requests', counted(total.requests), perSecond(rate))}
        ${tile('Errors', counted(total.errors), percent(share))}
        ${tile('Tokens in and out', `${short(total.input)} / ${short(total.output)}`, seconds > 0 ? perSecond((total.input + total.output) / seconds) : '')}
        ${tile('Charged', h(Money, { nano: String(total.cost) }), '')}
        ${tile('First event, p50', total.p50 === null ? '–' : duration(total.p50), total.p95 === null ? '' : `p95 ${duration(total.p95)}`)}
      </dl>
      ${h(Chart, {
        name: `Requests: ${perSecond(figures.requests.at(-1) ?? 0)} now, highest ${perSecond(highest)}`,
        times,
        series: [
          { label: 'Requests per second', values: figures.requests, show: perSecond },
          { label: 'Errors per second', values: figures.errors, show: perSecond, colour: '--bad' }
        ]
      })}
      ${h(Chart, {
        name: `Time to the first event: p50 ${total.p50 === null ? 'unknown' : duration(total.p50)}, p95 ${total.p95 === null ? 'unknown' : duration(total.p95)}`,
        times,
        series: [
          { label: 'First event, p50', values: figures.p50, show: duration },
          { label: 'First event, p95', values: figures.p95, show: duration, colour: '--line-2' }
        ]
      })}
      ${h(Chart, {
        name: `Charged: ${shortMoney(String(total.cost))} in all`,
        times,
        height: 120,
        series: [
          {
            label: 'Charged per hour',
            values: figures.cost,
            show: (usd) => shortMoney(String(Math.round(usd * 1e9))),
            colour: '--line-3'
          }
        ]
      })}
      ${
        codes.length === 0
          ? null
          : html`<h2>Errors by code</h2>
              <p class="chips">
                ${codes.map(
                  ([code, count]) =>
                    html`<a
                      class="chip"
                      href=${linkTo('requests', [], { code, tenant: ownTenant.value ?? address.value.query.get('tenant') ?? undefined })}
                      ><code>${code}</code> ${counted(count)}</a
                    >`
                )}
              </p>`
      }
    </div>
  `
}

function tile(title: string, value: unknown, more: string): VNode {
  return html`<div class="tile">
    <dt>${title}</dt>
    <dd><b class="number">${value}</b> <span class="quiet number">${more}</span></dd>
  </div>`
}
