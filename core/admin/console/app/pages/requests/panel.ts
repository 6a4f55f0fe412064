// The panel of one request: its outcome in a sentence, the waterfall, decisions, price lines, messages, and it raw.
import { useState } from 'preact/hooks'
import { get } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { ComponentChildren, VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Copy } from '../../parts/copy.ts'
import { Money } from '../../parts/money.ts'
import { counted, duration } from '../../parts/number.ts'
import { Panel } from '../../parts/panel.ts'
import { When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Id, visible } from '../../parts/text.ts'
import { Time } from '../../parts/time.ts'
import { linkTo } from '../../router.ts'
import { may } from '../../session.ts'
import { tryLink } from '../playground/link.ts'
import { Explain } from './explained.ts'
import { Messages } from './messages.ts'
import { toneOf } from './record.ts'
import type { Decision, RequestRecord } from './record.ts'
import { Waterfall } from './waterfall.ts'
import type { Step } from './waterfall.ts'

type Life = RequestRecord & { readonly timeline: readonly Step[] }

/** The panel. `close` is the address without it. */
export function RequestPanel(props: {
  id: string
  close: string
  previous?: string | undefined
  next?: string | undefined
}): VNode {
  const { id, close, previous, next } = props
  const loaded = useLoad<Life>((signal) => get(`/admin/v1/requests/${encodeURIComponent(id)}`, {}, signal), [id])
  return h(
    Panel,
    { label: 'One request', back: close, class: 'request-panel' },
    html`
      <div class="actions">
        ${h(Id, { id, most: 24 })}<span class="grow"></span>
        ${previous ? html`<a class="button small" href=${previous} title="K">Newer</a>` : null}
        ${next ? html`<a class="button small" href=${next} title="J">Older</a>` : null}
        <a class="button small" href=${close} title="Esc">Close</a>
      </div>
      ${h(When<Life>, { loaded, children: (life) => h(Shown, { life, key: id }) })}
    `
  )
}

function Shown({ life }: { life: Life }): VNode {
  const [explained, setExplained] = useState(false)
  const { key, model, decision, dropped, attempts, reason } = life
  return html`
    <p class="request-told">${h(Status, { tone: toneOf(life) }, life.outcome)} ${sentenceOf(life)}</p>
    <div class="actions">
      ${key === null ? null : html`<button type="button" class="small" aria-expanded=${explained} onClick=${() => setExplained(!explained)}>Explain again</button>`}
      ${
        may({ needs: 'manage' }) && model !== null
          ? html`<a
              class="button small"
              href=${tryLink(life)}
              >Try in the playground</a
            >`
          : null
      }
      ${h(Copy, { text: life.request_id, label: 'Copy id' })}
      ${h(Copy, { text: () => curlOf(life), label: 'Copy curl' })}
      ${h(Copy, { text: () => JSON.stringify(life, null, 2), label: 'Copy JSON' })}
    </div>
    ${explained ? h(Explain, { record: life }) : null} ${reason ? h(Why, { reason }) : null}
    ${(attempts ?? []).map(({ channel, credential, error, upstream_error: said }) =>
      error || said
        ? html`<p class="notice bad">
            ${visible(named(channel, credential))} said:
            ${visible(said ? [said.code, said.message].filter(Boolean).join(': ') : (error ?? ''))}
          </p>`
        : null
    )}
    <h2>Timeline</h2>
    ${h(Waterfall, { steps: life.timeline })} ${h(Times, { life })} ${decision ? h(Chosen, { decision }) : null}
    ${h(Cost, { life })}
    <h2>Request</h2>
    ${h(Facts, { life })}
    ${dropped && dropped.length > 0 ? html`<p>Left out in translation: ${dropped.map(visible).join(', ')}.</p>` : null}
    ${may({ needs: 'manage' }) ? h(Messages, { id: life.request_id }) : null}
    <details>
      <summary>Raw record</summary>
      <pre class="raw" tabindex="0">${visible(JSON.stringify(life, null, 2))}</pre>
    </details>
  `
}

function sentenceOf(life: Life): string {
  const { status, error_code, duration_ms, times, attempts, channel } = life
  const took = `after ${duration(duration_ms)}`
  const by = times?.refused_by === undefined ? '' : ` by the plugin ${visible(times.refused_by)}`
  const where = channel ? ` by ${visible(channel)}` : ''
  const tries = attempts && attempts.length > 1 ? ` in ${attempts.length} attempts` : ''
  switch (life.outcome) {
    case 'completed':
      return `${status}: answered${times?.answered_by ? ` by the plugin ${visible(times.answered_by)}` : where}${tries} ${took}.`
    case 'rejected':
      return `${status} ${error_code}: refused${by} before any channel was asked, ${took}.`
    case 'failed':
      return `${status} ${error_code}: no complete answer${tries} ${took}${by === '' ? '' : `, ended${by}`}.`
    case 'aborted':
      return `${status}: the client left ${took}.`
  }
}

/** What refused it, in the words of the record. */
function Why({ reason }: { reason: Readonly<Record<string, unknown>> }): VNode {
  return html`<div class="notice warn">
    <b>Why</b
    >${h(List, { facts: Object.entries(reason).map(([name, value]) => [name.replaceAll('_', ' '), visible(shownValue(value))]) })}
  </div>`
}

const shownValue = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

function Times({ life: { times } }: { life: Life }): VNode | null {
  if (!times) return null
  const more = times.omitted === undefined ? '' : ` ${times.omitted} more calls are not listed.`
  return html`<p class="quiet">
    Plugins took ${duration(times.plugins_ms)} together. Calls under 0.1 ms and stages of streams are not listed.${more}
  </p>`
}

/** A channel, with the credential of it that is meant where it has several. */
function named(channel: string, credential: string | undefined): string {
  return credential === undefined ? channel : `${channel} (${credential})`
}

function Chosen({ decision }: { decision: Decision }): VNode {
  const { order, excluded, stopped, models = [], omitted } = decision
  return html`
    <h2>Why this channel</h2>
    ${models.map(({ model, code, reason }) => html`<p>Another model stood in for <b>${visible(model)}</b>: ${visible(reason)} <span class="quiet">(${visible(code)})</span></p>`)}
    <ol>
      ${order.map(({ channel, rank, weight, health }) => html`<li>${visible(channel)} <span class="quiet">rank ${rank}, weight ${weight}${health ? `; ${visible(health.reason)}` : ''}</span></li>`)}
    </ol>
    ${excluded.map(({ channel, credential, by, reason }) => html`<p>Not <b>${visible(named(channel, credential))}</b>: ${visible(reason)} <span class="quiet">(${visible(by)})</span></p>`)}
    ${stopped === undefined ? null : html`<p>No further one: ${visible(stopped)}.</p>`}
    ${omitted === undefined ? null : html`<p class="quiet">${omitted} channels are not listed.</p>`}
  `
}

function Cost({ life }: { life: Life }): VNode {
  const { cost_lines: lines, cost_nano, reserved_nano, price_version, usage_source } = life
  return html`
    <h2>Cost</h2>
    ${
      lines && lines.length > 0
        ? html`<table class="lines">
            <thead>
              <tr>
                <th scope="col">Class</th>
                <th scope="col" class="end">Units</th>
                <th scope="col" class="end">USD per million</th>
              </tr>
            </thead>
            <tbody>
              ${lines.map(
                (line) =>
                  html`<tr>
                    <th scope="row">${line.class}</th>
                    <td class="end number">${counted(line.units)}</td>
                    <td class="end number">$${line.usd_per_million}</td>
                  </tr>`
              )}
            </tbody>
          </table>`
        : null
    }
    <p>
      <b>${h(Money, { nano: cost_nano })}</b>
      charged${usage_source ? `, as counted by: ${usage_source}` : ''}${reserved_nano === null ? '; nothing was held.' : html`; ${h(Money, { nano: reserved_nano })} was held.`}
      ${price_version ? html`<span class="quiet"> Price ${h(Id, { id: price_version, most: 14 })}</span>` : null}
    </p>
  `
}

function Facts({ life }: { life: Life }): VNode {
  const owner = [life.tenant, life.project, life.member]
    .filter((part) => part !== null)
    .map(visible)
    .join(' / ')
  const model = life.requested_model ? `${life.model} (asked for ${life.requested_model})` : life.model
  const facts: (readonly [string, ComponentChildren])[] = [
    ['came', h(Time, { at: life.time })],
    ['whose', owner === '' ? null : owner],
    ['key', life.key && html`<a href=${linkTo('keys', [life.key])}>${visible(life.key)}</a>`],
    ['model', model && visible(model)],
    ['endpoint', `${life.endpoint}, ${life.client_protocol}${life.streamed ? ', streamed' : ''}`],
    ['channel', life.channel && `${visible(life.channel)} (${life.channel_protocol})`],
    ["client's id", life.client_request_id && visible(life.client_request_id)],
    [
      'tags',
      life.tags &&
        Object.entries(life.tags)
          .map(([name, value]) => `${visible(name)}=${visible(value)}`)
          .join(', ')
    ],
    [
      'usage',
      life.usage &&
        Object.entries(life.usage)
          .filter(([, units]) => units > 0)
          .map(([name, units]) => `${name} ${counted(units)}`)
          .join(', ')
    ]
  ]
  return h(List, { facts })
}

/** Names with their values; without those that there are not. */
function List({ facts }: { facts: readonly (readonly [string, ComponentChildren])[] }): VNode {
  return html`<dl class="facts">
    ${facts
      .filter(([, value]) => value)
      .map(
        ([name, value]) =>
          html`<dt>${name}</dt>
            <dd>${value}</dd>`
      )}
  </dl>`
}

/** The record, as it can be asked for without the console. */
function curlOf({ request_id }: Life): string {
  return `curl ${location.origin}/admin/v1/requests/${request_id} -H "Authorization: Bearer $SLUICE_TOKEN"`
}
