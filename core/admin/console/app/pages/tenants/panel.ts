// One tenant, project or member: its rights, what it has spent, and what can be done with it.
import { useState } from 'preact/hooks'
import { get, send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Balances } from '../../parts/balances.ts'
import { Confirm } from '../../parts/dialog.ts'
import { Panel } from '../../parts/panel.ts'
import { budgetsText, editable, Facts, limitsText } from '../../parts/rights.ts'
import { FormDialog } from '../../parts/rights-forms.ts'
import { When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { visible } from '../../parts/text.ts'
import { Time } from '../../parts/time.ts'
import { linkTo } from '../../router.ts'
import { may } from '../../session.ts'
import { tones } from './level.ts'
import type { Level } from './level.ts'

/** The kinds, by how deep they stand. */
const kinds = ['tenant', 'project', 'member'] as const
const routes = {
  tenant: '/admin/v1/tenants/{tenant}',
  project: '/admin/v1/projects/{tenant}/{project}',
  member: '/admin/v1/members/{tenant}/{project}/{member}'
} as const

interface LevelPanelProps {
  /** The name, after those above it. */
  names: readonly string[]
  changed: () => void
  /** The address without it. */
  back: string
}

/** The panel. */
export function LevelPanel({ names, changed, back }: LevelPanelProps): VNode {
  const kind = kinds[names.length - 1] ?? 'member'
  const path = `/admin/v1/${kind}s/${names.map(encodeURIComponent).join('/')}`
  const loaded = useLoad((signal) => get<Level>(path, {}, signal), [path])
  const [tenant = '', project, member] = names
  const query = { tenant, project, member }
  const scopes = names.map((_, depth) => `${kinds[depth]!}:${names.slice(0, depth + 1).join('/')}`)
  const again = (): void => {
    loaded.again()
    changed()
  }
  const content = html`
    <p class="actions">
      <b class="grow">${names.map(visible).join(' / ')}</b>
      <a class="button small" href=${linkTo('keys', [], query)}>Keys</a>
      <a class="button small" href=${linkTo('spend', [], query)}>Spend</a>
      <a class="button plain small" href=${back} aria-label=${`Close the ${kind}`}>✕</a>
    </p>
    ${h(When<Level>, {
      loaded,
      children: (level) => html`
        ${h(Actions, { level, kind, path, names, again })}
        ${h(Facts, {
          of: [
            ['State', h(Status, { tone: tones[level.state] }, level.state)],
            ['Models', level.models.join(', ') || 'none'],
            ['Budget', budgetsText(level.budget) || 'none of its own'],
            ['Limits', limitsText(level.limits) || 'none of its own'],
            ['Expires', h(Time, { at: level.expires, absent: 'never' })],
            ['Made', h(Time, { at: level.created, absent: 'by gateway.yaml' })]
          ]
        })}
        <h2>Spend against budget</h2>
        ${h(Balances, { scopes, tenant, turn: loaded.at })}
      `
    })}
  `
  return h(Panel, { label: `${kind} ${names.join(' / ')}`, back }, content)
}

interface ActionsProps {
  level: Level
  kind: (typeof kinds)[number]
  path: string
  names: readonly string[]
  again: () => void
}

function Actions({ level, kind, path, names, again }: ActionsProps): VNode | null {
  const [doing, setDoing] = useState<'change' | 'close' | 'below'>()
  const close = (): void => setDoing(undefined)
  const done = (): void => {
    close()
    again()
  }
  // What a tenant may spend is for who runs the gateway to say; below it the tenant's own admins do.
  const changes = may({ needs: kind === 'tenant' ? 'operate' : 'manage' }) && level.state !== 'closed'
  const below = kind === 'tenant' ? 'project' : kind === 'project' ? 'member' : undefined
  const adds = below !== undefined && may({ needs: 'manage' }) && level.state !== 'closed'
  const [tenant, project] = names
  return html`
    ${level.source === 'file' && changes ? html`<p class="notice">It is declared in gateway.yaml, and is changed there.</p>` : null}
    <p class="actions">
      ${changes && level.source === 'store' ? html`<button type="button" class="small" onClick=${() => setDoing('change')}>Change</button>` : null}
      ${adds ? html`<button type="button" class="small" onClick=${() => setDoing('below')}>Add a ${below}</button>` : null}
      ${changes && level.source === 'store' ? html`<button type="button" class="small danger" onClick=${() => setDoing('close')}>Close for good</button>` : null}
    </p>
    ${
      doing === 'change'
        ? h(FormDialog<Level>, {
            title: `Change ${level.name}`,
            action: 'Save',
            method: 'PATCH',
            route: routes[kind],
            path,
            value: editable(level),
            close,
            done
          })
        : null
    }
    ${
      doing === 'below' && below
        ? h(FormDialog<Level>, {
            title: `Add a ${below} to ${level.name}`,
            action: 'Add',
            method: 'POST',
            route: `/admin/v1/${below}s`,
            path: `/admin/v1/${below}s`,
            value: { tenant, ...(below === 'member' && { project }) },
            form: { without: ['tenant', 'project'], first: ['name', 'budget', 'limits', 'models'] },
            close,
            done
          })
        : null
    }
    ${
      doing === 'close'
        ? h(
            Confirm,
            {
              title: `Close ${level.name}`,
              action: 'Close for good',
              typed: level.name,
              act: async () => {
                await send('DELETE', path)
                again()
              },
              close
            },
            html`<p>Requests below it are refused from now on, for good, and its name stays taken.</p>`
          )
        : null
    }
  `
}
