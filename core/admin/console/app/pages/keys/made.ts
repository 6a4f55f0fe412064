// A secret that is shown this once, with what makes clients use it.
import { useState } from 'preact/hooks'
import { get } from '../../api.ts'
import type { Page } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Snippet } from '../../parts/copy.ts'
import { Dialog } from '../../parts/dialog.ts'
import { recall, remember } from '../../remembered.ts'
import { known } from '../../session.ts'
import { recipes } from './snippets.ts'

const typed = (event: Event): string => (event.target as HTMLInputElement).value

/** The address of the gateway as this browser would reach it: a listener of all addresses is at that of the page. */
function address(): string {
  const kept = recall('gateway')
  if (typeof kept === 'string') return kept
  const told = known.value?.clients ?? ''
  if (!URL.canParse(told)) return told
  const url = new URL(told)
  if (url.hostname === '0.0.0.0' || url.hostname === '[::]') url.hostname = location.hostname
  return url.origin
}

/** The dialog. `name` is that of the key, `secret` its secret. */
export function Made({ name, secret, close }: { name: string; secret: string; close: () => void }): VNode {
  const [base, setBase] = useState(address)
  const [place, setPlace] = useState(0)
  const models = useLoad(
    (signal) =>
      get<Page<{ model: string; allowed: boolean }>>(`/admin/v1/keys/${encodeURIComponent(name)}/models`, {}, signal),
    [name]
  )
  const [chosen, setChosen] = useState<string>()
  const allowed = (models.data?.data ?? []).filter((one) => one.allowed).map((one) => one.model)
  const model = chosen ?? allowed[0] ?? 'MODEL'
  const take = (event: Event): void => {
    setBase(typed(event))
    remember('gateway', typed(event))
  }
  const recipe = recipes[place]!
  return h(
    Dialog,
    { title: `The secret of ${name}`, wide: true },
    html`
      <p>It is shown this once: only a hash of it is kept. Who has it spends the budget of ${name}.</p>
      ${h(Snippet, { text: secret, label: 'Secret' })}
      <div class="recipe">
        <label class="field"
          ><span>For</span>
          <select onChange=${(event: Event) => setPlace(Number(typed(event)))}>
            ${recipes.map(({ title }, at) => html`<option value=${at} selected=${at === place}>${title}</option>`)}
          </select></label
        >
        <label class="field"
          ><span>Model</span>
          <select onChange=${(event: Event) => setChosen(typed(event))}>
            ${
              allowed.length === 0
                ? html`<option>MODEL</option>`
                : allowed.map((one) => html`<option selected=${one === model}>${one}</option>`)
            }
          </select></label
        >
        <label class="field"
          ><span>Address of the gateway</span><input value=${base} autocomplete="off" onInput=${take}
        /></label>
      </div>
      ${
        // Somebody may copy it at once, so it is shown when it has a model that works.
        models.data || models.error
          ? h(Snippet, {
              text: recipe.text({ base: base.replace(/\/$/, ''), key: secret, model }),
              label: recipe.title
            })
          : html`<p class="waiting" role="status">Looking which models this key may use …</p>`
      }
      <p class="actions end"><button type="button" class="primary" onClick=${close}>I have kept it</button></p>
    `
  )
}
