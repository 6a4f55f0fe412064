// One channel beside the list: why it is as it is, what it serves, and how it did lately.
import { get } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { ComponentChildren, VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Chart } from '../../parts/chart.ts'
import { duration, percent, perSecond, short } from '../../parts/number.ts'
import { Panel } from '../../parts/panel.ts'
import { When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Text } from '../../parts/text.ts'
import { Ago, Time } from '../../parts/time.ts'
import { linkTo } from '../../router.ts'
import { ofPoints } from '../overview/figures.ts'
import type { Overview } from '../overview/figures.ts'
import { buttonsOf } from './buttons.ts'
import type { Doing } from './buttons.ts'
import { Limits } from './limits.ts'
import { tones, whyOf } from './channel.ts'
import type { Channel } from './channel.ts'

const hour = 3_600_000

/** The panel. `act` is absent for those who may only look. */
export function Detail({ channel, act }: { channel: Channel; act: ((doing: Doing) => void) | undefined }): VNode {
  const { name, state, health, switched, models } = channel
  const why = whyOf(channel)
  const past = useLoad(
    (signal) =>
      get<Overview>('/admin/v1/overview', { channel: name, since: new Date(Date.now() - hour).toISOString() }, signal),
    [name]
  )
  return h(
    Panel,
    { label: name, back: linkTo('channels') },
    html`
      <div class="dialog-head">
        <h2>${h(Text, { text: name, most: 60 })}</h2>
        <a class="button plain small" href=${linkTo('channels')} aria-label="Close the channel">✕</a>
      </div>
      <p>${h(Status, { tone: tones[state] }, state)} ${why ?? 'Requests are sent there.'}</p>
      ${act ? html`<p class="actions">${buttonsOf(channel, act)}</p>` : null}
      <dl class="facts">
        ${health?.since ? fact('Since', h(Ago, { at: health.since })) : null}
        ${health?.until ? fact('Tried again', h(Time, { at: health.until })) : null}
        ${switched.since === null ? null : fact('Switched', h(Time, { at: switched.since }))}
        ${fact('Address', html`<code>${channel.base_url}</code>`)} ${fact('Protocol', channel.protocol)}
        ${fact('Credential until', h(Time, { at: channel.credential_expires, absent: 'not known' }))}
        ${fact('Priority and weight', `${channel.priority}, ${channel.weight}`)}
        ${fact('Endpoints', channel.endpoints.join(', '))}
        ${
          health
            ? html`${fact('Attempts, 5 min', `${short(health.recent)}${health.error_rate === null ? '' : `, ${percent(health.error_rate)} failed`}`)}
              ${fact('First event', health.first_event_ms ? `p50 ${duration(health.first_event_ms.p50)}, p95 ${duration(health.first_event_ms.p95)}` : '–')}
              ${fact('Tokens', health.tokens_per_second === null ? '–' : perSecond(health.tokens_per_second))}
              ${fact('In a row', `${health.consecutive_failures} failures`)}`
            : fact('Health', 'No plugin of the chain tells it.')
        }
      </dl>
      ${health ? h(Limits, { limits: health.limits, credentials: health.credentials }) : null}
      <h3>The last hour</h3>
      ${h(When<Overview>, {
        loaded: past,
        children: (data) => {
          const { times, requests, errors, total } = ofPoints(data)
          return h(Chart, {
            name: `Requests of the last hour: ${short(total.requests)}, ${short(total.errors)} with an error`,
            times,
            height: 120,
            series: [
              { label: 'Requests per second', values: requests, show: perSecond },
              { label: 'Errors per second', values: errors, show: perSecond, colour: '--bad' }
            ]
          })
        }
      })}
      <p><a href=${linkTo('requests', [], { channel: name })}>Its requests</a></p>
      <h3>Models</h3>
      <ul>
        ${Object.entries(models).map(
          ([own, theirs]) =>
            html`<li>
              <a href=${linkTo('models', [own])}>${h(Text, { text: own, most: 60 })}</a
              >${own === theirs ? null : html` <span class="quiet">there: ${theirs}</span>`}
            </li>`
        )}
      </ul>
    `
  )
}

function fact(title: string, value: ComponentChildren): VNode {
  return html`<dt>${title}</dt>
    <dd>${value}</dd>`
}
