// The configuration in use: since when, what came of the last reload, and what a reload would change now.
import { get, send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import type { Loaded } from '../../load.ts'
import { useAction } from '../../parts/dialog.ts'
import { Problem as Refusal, When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Id, Text } from '../../parts/text.ts'
import { Time } from '../../parts/time.ts'
import { may } from '../../session.ts'
import { Changes, Problems } from './shown.ts'
import type { Problem, Reload } from './shown.ts'

interface Config {
  readonly version: string
  readonly file: string
  readonly included: readonly string[]
  readonly hash: string
  readonly last_reload: Reload | null
  readonly config: Readonly<Record<string, unknown>>
}

interface Pending {
  readonly in_use: string
  readonly on_disk: string | null
  readonly changes: readonly { text: string }[]
  readonly problems: readonly Problem[]
}

/** The view. */
export function InUse(): VNode {
  const loaded = useLoad((signal) => get<Config>('/admin/v1/config', {}, signal), [])
  const operates = may({ needs: 'operate' })
  const pending = useLoad(
    async (signal) => (operates ? get<Pending>('/admin/v1/config/diff', {}, signal) : undefined),
    [operates]
  )
  const again = (): void => {
    loaded.again()
    pending.again()
  }
  return html`
    ${operates ? h(Waiting, { pending: pending as Loaded<Pending>, again }) : null}
    ${h(When<Config>, { loaded, children: (config) => h(Facts, { config }) })}
  `
}

/** What stands on the disk and is not in use. */
function Waiting({ pending, again }: { pending: Loaded<Pending>; again: () => void }): VNode | null {
  const reload = useAction(() => send('POST', '/admin/v1/reload').finally(again))
  const { data } = pending
  if (!data) return null
  const same = data.on_disk === data.in_use && data.changes.length === 0
  const button = html`<button type="button" disabled=${reload.busy} onClick=${reload.run}>Reload now</button>`
  if (same && data.problems.length === 0)
    return html`<p class="actions">${h(Status, { tone: 'good' }, 'The files on the disk are in use')} ${button}</p>
      ${reload.error ? h(Refusal, { error: reload.error }) : null}`
  return html`
    ${h(Problems, { problems: data.problems, title: 'The files on the disk would be refused: the configuration in use stays' })}
    ${
      data.changes.length > 0
        ? html`<div class="notice warn">
            <p><b>! The files on the disk are not in use.</b> A reload would change:</p>
            ${h(Changes, { changes: data.changes.map(({ text }) => text), none: '' })}
          </div>`
        : null
    }
    ${reload.error ? h(Refusal, { error: reload.error }) : null}
    <p>${button}</p>
  `
}

function Facts({ config }: { config: Config }): VNode {
  const { last_reload: last } = config
  return html`
    <dl>
      <dt>File</dt>
      <dd>${h(Text, { text: config.file, most: 200 })}</dd>
      ${
        config.included.length === 0
          ? null
          : html`<dt>Included</dt>
              <dd>${config.included.map((name) => html`<div>${h(Text, { text: name, most: 200 })}</div>`)}</dd>`
      }
      <dt>Hash</dt>
      <dd>${h(Id, { id: config.hash, most: 32 })}</dd>
      <dt>Version</dt>
      <dd>Sluice ${config.version}</dd>
      <dt>Last reload</dt>
      <dd>
        ${
          last === null
            ? 'none since the start'
            : html`${h(Status, { tone: last.ok ? 'good' : 'bad' }, last.ok ? 'taken over' : 'refused')}
              ${h(Time, { at: last.time })},
              ${last.reason}${last.by === null ? '' : html` by ${h(Text, { text: last.by })}`}, ${last.duration_ms} ms`
        }
      </dd>
    </dl>
    ${last && !last.ok ? h(Problems, { problems: last.problems, title: 'Why the last reload was refused' }) : null}
    ${
      last?.ok
        ? html`<h2>What the last reload changed</h2>
            ${h(Changes, { changes: last.changes, none: 'Nothing.' })}`
        : null
    }
    <h2>As it is in use, without secrets</h2>
    <pre class="config-text" role="region" tabindex="0" aria-label="Configuration in use">
${JSON.stringify(config.config, null, 2)}</pre>
  `
}
