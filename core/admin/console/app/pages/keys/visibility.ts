// What a key may use and why, as a picture: the layers that a model has to pass, and what each lets through.
import { get } from '../../api.ts'
import type { Page } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Nothing, When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { visible } from '../../parts/text.ts'

interface Layer {
  readonly layer: string
  readonly scope: string
  readonly patterns: readonly string[]
}

interface Seen {
  readonly model: string
  readonly allowed: boolean
  readonly refused_by: string | null
}

type Shown = Page<Seen> & { readonly layers: readonly Layer[] }

const columns: readonly Column<Seen>[] = [
  { id: 'model', title: 'Model', value: ({ model }) => visible(model) },
  {
    id: 'allowed',
    title: 'For this key',
    value: ({ refused_by: by }) => (by === null ? 'may use' : `refused by the ${by}`),
    cell: ({ refused_by: by }) =>
      h(Status, { tone: by === null ? 'good' : 'idle' }, by === null ? 'may use' : `refused by the ${by}`)
  }
]

/** The picture, and the models in it. `turn` changes when the key did. */
export function Visibility({ name, turn }: { name: string; turn: unknown }): VNode {
  const loaded = useLoad(
    (signal) => get<Shown>(`/admin/v1/keys/${encodeURIComponent(name)}/models`, {}, signal),
    [name, turn]
  )
  return h(When<Shown>, { loaded, children: draw })
}

function draw({ layers, data, next }: Shown): VNode {
  // What passes a layer is what neither it nor one above it refuses.
  const place = (by: string | null): number =>
    by === null ? layers.length : layers.findIndex(({ layer }) => layer === by)
  const passing = layers.map((_, at) => data.filter(({ refused_by: by }) => place(by) > at).length)
  return html`
    <ol class="layers">
      <li class="source"><b>Models</b> <span class="number">${data.length}${next === null ? '' : '+'}</span></li>
      ${layers.map(
        ({ layer, scope, patterns }, at) =>
          html`<li>
            <b>${layer}</b> <code>${visible(scope.slice(scope.indexOf(':') + 1))}</code>
            <span class="patterns"
              >${patterns.length === 0 ? 'nothing' : patterns.map((one) => html`<code>${visible(one)}</code> `)}</span
            >
            <span class="number">${passing[at]} pass</span>
          </li>`
      )}
    </ol>
    ${h(Table<Seen>, {
      name: 'models of the key',
      columns,
      rows: data,
      keyOf: ({ model }) => model,
      empty: h(Nothing, { title: 'There is no model to use' }, html`<p>The tenant enables none that is configured.</p>`)
    })}
  `
}
