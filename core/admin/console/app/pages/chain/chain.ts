// The chain as a picture: plugins in order, what each needs and fills, what it takes of requests and what it refuses.
import { useEffect } from 'preact/hooks'
import { get } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Head } from '../../parts/head.ts'
import { Lacking } from '../../parts/lacking.ts'
import { counted, duration } from '../../parts/number.ts'
import { Nothing, When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { visible } from '../../parts/text.ts'
import { linkTo } from '../../router.ts'

interface Plugin {
  readonly name: string
  readonly summary: string
  readonly source: string | null
  readonly hooks: readonly string[]
  readonly reads: 'head' | 'body'
  readonly needs: readonly string[]
  readonly awaits: readonly string[]
  readonly provides: readonly string[]
  readonly skipped: boolean
  readonly options: Readonly<Record<string, unknown>>
  readonly defaults: Readonly<Record<string, unknown>>
  readonly exchanges: number
  readonly took_p50_ms: number | null
  readonly took_p99_ms: number | null
  readonly answered: number
  readonly refused: readonly { code: string; count: number }[]
}

interface Chain {
  readonly minutes: number
  readonly plugins: readonly Plugin[]
  readonly missing_workers?: readonly number[]
}

/** Milliseconds between two looks. */
const pause = 5000

/** The phases of an exchange, in the order in which hooks run. `up`: the last plugin first. */
const phases: readonly { readonly title: string; readonly hooks: readonly string[]; readonly up?: true }[] = [
  { title: 'Request', hooks: ['onModel', 'onRequest'] },
  { title: 'Channels', hooks: ['onCandidates', 'selectChannel'] },
  { title: 'Attempt', hooks: ['onAttempt'] },
  { title: 'Answer', hooks: ['onResponse'], up: true },
  { title: 'Turns', hooks: ['onTurn', 'whileOpen'] },
  { title: 'End', hooks: ['onSettled', 'onConcluded'] }
]

/** The page. */
export default function ChainPage(): VNode {
  const loaded = useLoad<Chain>((signal) => get('/admin/v1/chain', {}, signal), [])
  const { again } = loaded
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) again()
    }, pause)
    return () => clearInterval(timer)
  }, [])
  const about = 'Each request goes down through the plugins, its answer comes up again, and its end is told to all.'
  return html`
    ${h(Head, { title: 'Chain', about })}
    ${h(When<Chain>, {
      loaded,
      children: ({ plugins, minutes, missing_workers: workers }) =>
        plugins.length === 0
          ? h(Nothing, { title: 'The chain has no plugins' })
          : html`${h(Phases, { plugins })}
              <p class="quiet">
                Figures of the last ${minutes} minutes. Times are those of all hooks of a plugin in one exchange; stages
                of streams are not timed.
              </p>
              ${h(Lacking, { workers })}
              <ol class="chain">
                ${plugins.map((plugin, place) => h(Link, { key: plugin.name, plugin, plugins, place, minutes }))}
              </ol>`
    })}
  `
}

/** Which plugin takes part in which phase. */
function Phases({ plugins }: { plugins: readonly Plugin[] }): VNode {
  return html`<div class="table-box" role="region" tabindex="0" aria-label="Phases">
    <table class="phases">
      <thead>
        <tr>
          <th scope="col">Plugin</th>
          ${phases.map(({ title, up }) => html`<th scope="col">${title} <span class="quiet">${up ? '↑' : '↓'}</span></th>`)}
        </tr>
      </thead>
      <tbody>
        ${plugins.map(
          ({ name, hooks }) =>
            html`<tr>
              <th scope="row">${visible(name)}</th>
              ${phases.map((phase) => html`<td>${phase.hooks.filter((hook) => hooks.includes(hook)).map((hook) => html`<span class="hook">${hook}</span>`)}</td>`)}
            </tr>`
        )}
      </tbody>
    </table>
  </div>`
}

interface LinkProps {
  plugin: Plugin
  plugins: readonly Plugin[]
  place: number
  minutes: number
}

function Link({ plugin, plugins, place, minutes }: LinkProps): VNode {
  const { name, summary, source, needs, awaits, provides, skipped, exchanges, answered, refused } = plugin
  const { took_p50_ms: p50, took_p99_ms: p99 } = plugin
  const slowest = Math.max(...plugins.map((one) => one.took_p99_ms ?? 0))
  const since = new Date(Date.now() - minutes * 60_000).toISOString()
  const from = (slot: string): string => {
    const above = plugins.slice(0, place).find((one) => one.provides.includes(slot))
    return above ? `${slot} (${visible(above.name)})` : slot
  }
  return html`<li class="link">
    <div class="link-head">
      <h2>${visible(name)}</h2>
      ${source === null ? null : html`<code>${visible(source)}</code>`}
      ${skipped ? h(Status, { tone: 'idle' }, 'not asked in explanations') : null}
    </div>
    <p class="quiet">${visible(summary)}</p>
    <dl class="facts">
      <dt>takes</dt>
        <dd>
          ${
            p50 === null || p99 === null
              ? html`<span class="quiet">no request yet</span>`
              : html`<span class="number">p50 ${duration(p50)}, p99 ${duration(p99)}</span>${' '}
                  <span class="quiet">of ${counted(exchanges)} exchanges</span>
                  <span class="share" aria-hidden="true"
                    ><span class="p99" style=${{ width: `${slowest > 0 ? (p99 / slowest) * 100 : 0}%` }}></span
                    ><span class="p50" style=${{ width: `${slowest > 0 ? (p50 / slowest) * 100 : 0}%` }}></span
                  ></span>`
          }
        </dd>
      <dt>refused</dt>
        <dd>
          ${
            refused.length === 0
              ? html`<span class="quiet">nothing</span>`
              : refused.map(
                  ({ code, count }, at) =>
                    html`${at > 0 ? ', ' : ''}<a href=${linkTo('requests', [], { code, since })}>${code}</a>${' '}
                      <b class="number">${counted(count)}</b>`
                )
          }
        </dd>
      ${
        answered > 0
          ? html`<dt>answered</dt>
              <dd class="number">${counted(answered)}</dd>`
          : null
      }
      ${
        needs.length > 0
          ? html`<dt>needs</dt>
              <dd>${needs.map(from).join(', ')}</dd>`
          : null
      }
      ${
        awaits.length > 0
          ? html`<dt>reads at the end</dt>
              <dd>${awaits.join(', ')}</dd>`
          : null
      }
      ${
        provides.length > 0
          ? html`<dt>fills</dt>
              <dd>${provides.join(', ')}</dd>`
          : null
      }
    </dl>
    <details>
      <summary>Options</summary>
      <dl class="facts">
        ${optionsOf(plugin).map(
          ([option, value, set]) =>
            html`<dt>${visible(option)}</dt>
              <dd>
                <code>${visible(JSON.stringify(value))}</code>
                ${set ? null : html`<span class="quiet">by default</span>`}
              </dd>`
        )}
        ${
          optionsOf(plugin).length === 0
            ? html`<dt>none</dt>
                <dd></dd>`
            : null
        }
      </dl>
    </details>
  </li>`
}

function optionsOf({ options, defaults }: Plugin): (readonly [name: string, value: unknown, set: boolean])[] {
  return [
    ...Object.entries(options).map(([name, value]) => [name, value, true] as const),
    ...Object.entries(defaults).map(([name, value]) => [name, value, false] as const)
  ]
}
