// What the traffic of some days would have cost on each model. The choices stand in the address.
import { send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Money } from '../../parts/money.ts'
import { counted, percent } from '../../parts/number.ts'
import { Nothing, When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { Text } from '../../parts/text.ts'
import { Tip } from '../../parts/tip.ts'
import { address, linkTo, setQuery } from '../../router.ts'
import { may, ownTenant } from '../../session.ts'

interface Doubt {
  readonly why: string
  readonly text?: string
}

interface Compared {
  readonly model: string
  readonly would_nano: string | null
  readonly difference_nano: string | null
  readonly least_nano: string | null
  readonly most_nano: string | null
  readonly exact: boolean
  readonly doubts: readonly Doubt[]
}

interface Answer {
  readonly since: string
  readonly until: string
  readonly requests: number
  readonly charge_nano: string
  readonly complete: boolean
  readonly sources: readonly { model: string; requests: number; charge_nano: string }[]
  readonly models: readonly Compared[]
}

/** The choices and the table. */
export function Compare({ models }: { models: readonly { name: string }[] }): VNode {
  const { query } = address.value
  const asked = {
    model: query.get('model') ?? undefined,
    tenant: ownTenant.value ?? query.get('tenant') ?? undefined,
    since: query.get('since') ?? undefined,
    until: query.get('until') ?? undefined
  }
  const loaded = useLoad(
    (signal) => send<Answer>('POST', '/admin/v1/what-if', asked, { signal }),
    [JSON.stringify(asked)],
    { keep: true }
  )
  const set = (name: string) => (event: Event) => setQuery({ [name]: (event.target as HTMLInputElement).value })
  return html`
    <form class="actions" onSubmit=${(event: Event) => event.preventDefault()}>
      <label class="field"
        ><span>Traffic of</span>
        <select value=${asked.model ?? ''} onChange=${set('model')}>
          <option value="">all models</option>
          ${models.map(({ name }) => html`<option value=${name} selected=${name === asked.model}>${name}</option>`)}
        </select>
      </label>
      ${
        may({ whole: true })
          ? html`<label class="field"
              ><span>Tenant</span>
              <input value=${asked.tenant ?? ''} placeholder="all" autocomplete="off" onChange=${set('tenant')} />
            </label>`
          : null
      }
      <label class="field"
        ><span>From (day in UTC)</span>
        <input type="date" value=${asked.since ?? loaded.data?.since ?? ''} onChange=${set('since')} />
      </label>
      <label class="field"
        ><span>Up to, not included</span>
        <input type="date" value=${asked.until ?? loaded.data?.until ?? ''} onChange=${set('until')} />
      </label>
    </form>
    ${h(When<Answer>, { loaded, children: (answer) => h(Result, { answer, busy: loaded.busy }) })}
  `
}

function Result({ answer, busy }: { answer: Answer; busy: boolean }): VNode {
  const { requests, charge_nano: charge, sources } = answer
  if (requests === 0)
    return h(
      Nothing,
      { title: 'No requests in these days' },
      html`<p>Take other days, or the traffic of another model.</p>`
    )
  return html`
    <div class="tiles">
      <div class="tile"><span class="quiet">Requests</span><b>${counted(requests)}</b></div>
      <div class="tile"><span class="quiet">Charged</span><b>${h(Money, { nano: charge })}</b></div>
      <div class="tile"><span class="quiet">Models used</span><b>${counted(sources.length)}</b></div>
    </div>
    ${answer.complete ? null : html`<p class="notice warn">These are too many sums: narrow the choice.</p>`}
    ${h(Table<Compared>, {
      name: 'comparison',
      columns: columnsFor(BigInt(charge)),
      rows: answer.models,
      keyOf: ({ model }) => model,
      open: ({ model }) => linkTo('models', [model]),
      sort: { column: 'would', down: false },
      busy,
      empty: h(Nothing, { title: 'No models to compare with' })
    })}
    <p class="quiet">
      By the units as they were counted: another model may split texts into other tokens, think for longer, or keep no
      cache. Exact means to the nano-dollar.
    </p>
  `
}

function columnsFor(charge: bigint): readonly Column<Compared>[] {
  const share = (difference: string): string => {
    if (charge === 0n) return ''
    const value = Number((BigInt(difference) * 10_000n) / charge) / 10_000
    return `${value > 0 ? '+' : ''}${percent(value)}`
  }
  return [
    {
      id: 'model',
      title: 'Model',
      value: ({ model }) => model,
      cell: ({ model }) => h(Text, { text: model, most: 40 })
    },
    {
      id: 'would',
      title: 'Would have cost',
      align: 'end',
      value: (row) => (row.would_nano === null ? null : BigInt(row.would_nano)),
      cell: (row) =>
        row.would_nano === null ? html`<span class="quiet">no price</span>` : h(Money, { nano: row.would_nano })
    },
    {
      id: 'difference',
      title: 'Difference',
      align: 'end',
      value: (row) => (row.difference_nano === null ? null : BigInt(row.difference_nano)),
      cell: (row) =>
        row.difference_nano === null ? html`<span class="quiet">–</span>` : h(Money, { nano: row.difference_nano })
    },
    {
      id: 'share',
      title: 'Share',
      align: 'end',
      cell: (row) =>
        row.difference_nano === null ? '' : html`<span class="number">${share(row.difference_nano)}</span>`
    },
    {
      id: 'exact',
      title: 'How sure',
      value: ({ exact }) => (exact ? 'exact' : 'not exact'),
      cell: (row) =>
        row.exact
          ? h(Status, { tone: 'good' }, 'exact')
          : h(
              Tip,
              { tip: row.doubts.map(({ text, why }) => text ?? why).join('\n') },
              h(Status, { tone: 'warn' }, row.would_nano === null ? 'no price in force' : 'not exact')
            )
    },
    {
      id: 'between',
      title: 'Between',
      align: 'end',
      cell: (row) =>
        row.exact || row.least_nano === null
          ? ''
          : html`${h(Money, { nano: row.least_nano })} and ${h(Money, { nano: row.most_nano })}`
    }
  ]
}
