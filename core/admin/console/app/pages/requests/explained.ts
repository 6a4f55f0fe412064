// "Explain again": what would become of a request like this one now. Nothing is sent or counted.
import { send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { visible } from '../../parts/text.ts'
import { Lacking } from '../../parts/lacking.ts'
import { Money } from '../../parts/money.ts'
import type { RequestRecord } from './record.ts'

interface Explained {
  readonly outcome: 'sent' | 'answered' | 'refused' | 'kept' | 'undecided'
  readonly refusal: { status: number; code: string; message: string } | null
  readonly held: { nano: string } | null
  readonly order?: readonly { channel: string }[] | null
  readonly excluded?: readonly { channel: string; reason: string }[] | null
  readonly skipped_plugins?: readonly string[]
  readonly workers?: { alike: readonly number[]; otherwise: readonly number[]; missing: readonly number[] }
}

/** The endpoint as the API of explanations names it: records have the operation. */
const endpointOf = (record: RequestRecord): string => record.endpoint.split('.', 1)[0]!

/** The answer. */
export function Explain({ record }: { record: RequestRecord }): VNode {
  const loaded = useLoad<Explained>(
    (signal) =>
      send(
        'POST',
        '/admin/v1/explain',
        {
          key: record.key,
          endpoint: endpointOf(record),
          ...(record.model !== null && { model: record.requested_model ?? record.model }),
          ...(record.streamed && { stream: true })
        },
        { signal }
      ),
    [record.request_id]
  )
  return html`<div class="notice" aria-live="polite">
    ${h(When<Explained>, { loaded, children: (data) => told(data) })}
  </div>`
}

function told({ outcome, refusal, held, order, excluded, skipped_plugins, workers }: Explained): VNode {
  const tone = outcome === 'refused' ? 'bad' : outcome === 'undecided' ? 'warn' : 'good'
  return html`
    <p>
      Now it would be${' '}
      ${h(Status, { tone }, outcome)}${refusal ? html`: ${refusal.status} <code>${refusal.code}</code>, ${visible(refusal.message)}` : '.'}
      ${held ? html` At most ${h(Money, { nano: held.nano })} would be held.` : null}
    </p>
    ${workers && workers.otherwise.length > 0 ? html`<p>By worker ${workers.alike.join(', ')}; not by ${workers.otherwise.join(', ')}, where channels look better.</p>` : null}
    ${h(Lacking, { workers: workers?.missing })}
    ${order && order.length > 0 ? html`<p>Channels in order: ${order.map(({ channel }) => visible(channel)).join(', ')}.</p>` : null}
    ${excluded?.map(({ channel, reason }) => html`<p class="quiet">Not ${visible(channel)}: ${visible(reason)}.</p>`)}
    ${skipped_plugins && skipped_plugins.length > 0 ? html`<p class="quiet">Not asked: ${skipped_plugins.map(visible).join(', ')}.</p>` : null}
  `
}
