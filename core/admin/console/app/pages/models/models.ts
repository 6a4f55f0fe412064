// Models and prices: the catalogue with the channels behind each model, one model with the history of its prices, and
// what traffic would have cost on other models.
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useList } from '../../load.ts'
import { Head } from '../../parts/head.ts'
import { Money } from '../../parts/money.ts'
import { counted } from '../../parts/number.ts'
import { Failure, Nothing } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { Text } from '../../parts/text.ts'
import { address, linkTo } from '../../router.ts'
import { may, ownTenant } from '../../session.ts'
import { Compare } from './compare.ts'
import { kindOf, ModelPanel, retirementOf } from './model.ts'
import type { Model } from './model.ts'
import { rateOf } from './rates.ts'

/** The page. */
export default function ModelsPage(): VNode {
  const { rest, query } = address.value
  const list = useList<Model>('/admin/v1/models', { tenant: ownTenant.value })
  const comparing = query.get('view') === 'compare'
  const about = comparing
    ? 'What the traffic of some days would have cost on other models, by the prices in force now.'
    : 'The catalogue, with what was used of each model in the last seven days.'
  const other = comparing
    ? html`<a class="button" href=${linkTo('models')}>All models</a>`
    : html`<a class="button" href=${linkTo('models', [], { view: 'compare' })}>Compare costs</a>`
  return html`
    ${h(Head, { title: comparing ? 'Compare costs' : 'Models and prices', about }, other)}
    ${list.error ? h(Failure, { error: list.error, again: list.again }) : null}
    ${
      comparing
        ? h(Compare, { models: list.rows })
        : html`<div class=${rest[0] === undefined ? '' : 'split'}>
            ${h(Table<Model>, {
              name: 'models',
              columns: may({ whole: true }) ? [...columns, ...ofOperators] : columns,
              rows: list.rows,
              keyOf: ({ name }) => name,
              open: ({ name }) => linkTo('models', [name]),
              current: rest[0],
              more: list.more,
              busy: list.busy,
              empty: h(
                Nothing,
                { title: 'No models' },
                html`<p>
                  Models stand in gateway.yaml, with their prices; your tenant may not be allowed any of them.
                </p>`
              )
            })}
            ${rest[0] === undefined ? null : h(ModelPanel, { key: rest[0], name: rest[0] })}
          </div>`
    }
  `
}

const rateColumn = (name: 'input' | 'output', title: string): Column<Model> => ({
  id: name,
  title,
  align: 'end',
  value: ({ price }) => (price?.usd_per_million[name] === undefined ? null : Number(price.usd_per_million[name])),
  cell: ({ price, price_by_name: byName }) =>
    !price
      ? html`<span class="quiet">${byName ? 'each its own' : 'none yet'}</span>`
      : price.free
        ? 'free'
        : price.usd_per_million[name] === undefined
          ? html`<span class="quiet">–</span>`
          : html`<span class="number">${rateOf(name, price.usd_per_million[name])}</span>`
})

const columns: readonly Column<Model>[] = [
  {
    id: 'name',
    title: 'Model',
    value: ({ name }) => name,
    cell: (model) => html`${h(Text, { text: model.name, most: 40 })} ${kindOf(model)}`
  },
  { id: 'owned_by', title: 'Owner', optional: true, value: (model) => model.owned_by },
  rateColumn('input', 'Input, 1M tokens'),
  rateColumn('output', 'Output, 1M tokens'),
  {
    id: 'context',
    title: 'Context, tokens',
    align: 'end',
    optional: true,
    value: (model) => model.context_window,
    cell: (model) =>
      model.context_window === null ? html`<span class="quiet">–</span>` : counted(model.context_window)
  },
  {
    id: 'requests',
    title: 'Requests, 7 days',
    align: 'end',
    value: ({ requests }) => requests,
    cell: ({ requests }) => html`<span class="number">${counted(requests)}</span>`
  },
  {
    id: 'charge',
    title: 'Charged, 7 days',
    align: 'end',
    value: (model) => BigInt(model.charge_nano),
    cell: (model) => h(Money, { nano: model.charge_nano })
  },
  {
    id: 'retirement',
    title: 'Retirement',
    value: ({ deprecated }) => deprecated?.sunset ?? deprecated?.since,
    cell: (model) => retirementOf(model)
  }
]

const ofOperators: readonly Column<Model>[] = [
  {
    id: 'channels',
    title: 'Channels',
    value: ({ channels = [] }) => channels.filter(({ state }) => state === 'healthy').length,
    cell: ({ channels = [] }) => {
      const well = channels.filter(({ state }) => state === 'healthy').length
      const tone = well === channels.length ? 'good' : well === 0 ? 'bad' : 'warn'
      return h(Status, { tone }, `${well} of ${channels.length} healthy`)
    }
  }
]
