// One key: what it is, what it may use and why, what it has spent, and what can be done with it.
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
import { Time } from '../../parts/time.ts'
import { linkTo } from '../../router.ts'
import { may } from '../../session.ts'
import { tones } from './key.ts'
import type { IssuedKey, Key } from './key.ts'
import { Visibility } from './visibility.ts'

interface KeyPanelProps {
  name: string
  /** The address without it. */
  back: string
  /** Called when the key was changed. */
  changed: () => void
  issued: (key: IssuedKey) => void
}

/** The panel. */
export function KeyPanel({ name, back, issued, ...props }: KeyPanelProps): VNode {
  const path = `/admin/v1/keys/${encodeURIComponent(name)}`
  const loaded = useLoad((signal) => get<Key>(path, {}, signal), [name])
  const changed = (): void => {
    loaded.again()
    props.changed()
  }
  const content = html`
    <p class="actions">
      <b class="grow">${name}</b>
      <a class="button small" href=${linkTo('requests', [], { key: name })}>Requests</a>
      <a class="button plain small" href=${back} aria-label="Close the key">✕</a>
    </p>
    ${h(When<Key>, { loaded, children: (key) => h(Content, { issued, changed, of: key, path, turn: loaded.at }) })}
  `
  return h(Panel, { label: `Key ${name}`, back }, content)
}

interface ContentProps extends Omit<KeyPanelProps, 'name' | 'back'> {
  of: Key
  path: string
  turn: unknown
}

function Content({ of, path, turn, changed, issued }: ContentProps): VNode {
  const { name, tenant, project, member } = of
  const scopes = [
    `tenant:${tenant}`,
    ...(project === null ? [] : [`project:${tenant}/${project}`]),
    ...(member === null ? [] : [`member:${tenant}/${project}/${member}`]),
    `key:${name}`
  ]
  return html`
    ${h(Actions, { of, path, changed, issued })}
    ${h(Facts, {
      of: [
        ['State', h(Status, { tone: tones[of.state] }, of.state)],
        ['Belongs to', [tenant, project, member].filter((one) => one !== null).join(' / ')],
        ['Secret', of.secrets.map(({ hint }) => hint).join(', ') || of.hint || 'only its hash is known'],
        ['Endpoints', of.endpoints?.join(', ') ?? null],
        ['Limits', limitsText(of.limits) || 'none of its own'],
        ['Budget', budgetsText(of.budget) || 'none of its own'],
        ['Expires', h(Time, { at: of.expires, absent: 'never' })],
        ['Made', h(Time, { at: of.created, absent: 'by gateway.yaml' })],
        ['Revoked', of.revoked === null ? null : h(Time, { at: of.revoked })]
      ]
    })}
    <h2>Spend against budget</h2>
    ${h(Balances, { scopes, tenant, turn })}
    <h2>What it may use, and why</h2>
    ${h(Visibility, { name, turn })}
  `
}

type Doing = 'change' | 'rotate' | 'revoke' | 'switch'

function Actions({
  of,
  path,
  changed,
  issued
}: Pick<ContentProps, 'of' | 'path' | 'changed' | 'issued'>): VNode | null {
  const [doing, setDoing] = useState<Doing>()
  const close = (): void => setDoing(undefined)
  const done = (): void => {
    close()
    changed()
  }
  if (!may({ needs: 'manage' }) || of.state === 'revoked') return null
  if (of.source === 'file')
    return html`<p class="notice">This key is declared in gateway.yaml, and is changed there.</p>`
  const button = (what: Doing, title: string, tone = ''): VNode =>
    html`<button type="button" class=${`small ${tone}`} onClick=${() => setDoing(what)}>${title}</button>`
  const route = '/admin/v1/keys/{key}'
  return html`
    <p class="actions">
      ${button('change', 'Change')} ${button('rotate', 'Rotate')} ${button('switch', of.enabled ? 'Disable' : 'Enable')}
      ${button('revoke', 'Revoke', 'danger')}
    </p>
    ${
      doing === 'change'
        ? h(FormDialog<Key>, {
            title: `Change ${of.name}`,
            action: 'Save',
            method: 'PATCH',
            route,
            path,
            value: editable(of),
            close,
            done
          })
        : null
    }
    ${
      doing === 'rotate'
        ? h(FormDialog<IssuedKey>, {
            title: `Give ${of.name} a new secret`,
            action: 'Rotate',
            method: 'POST',
            route: `${route}/rotate`,
            path: `${path}/rotate`,
            value: {},
            form: { without: ['rotation'] },
            close,
            done: (key) => {
              done()
              issued(key)
            }
          })
        : null
    }
    ${
      doing === 'switch'
        ? h(
            Confirm,
            {
              title: `${of.enabled ? 'Disable' : 'Enable'} ${of.name}`,
              action: of.enabled ? 'Disable' : 'Enable',
              act: async () => {
                await send('PATCH', path, { enabled: of.enabled ? false : null })
                changed()
              },
              close
            },
            html`<p>
              ${of.enabled ? 'Its next request is refused, until it is enabled again.' : 'Its next request is served.'}
            </p>`
          )
        : null
    }
    ${
      doing === 'revoke'
        ? h(
            Confirm,
            {
              title: `Revoke ${of.name}`,
              action: 'Revoke',
              typed: of.name,
              act: async () => {
                await send('DELETE', path)
                changed()
              },
              close
            },
            html`<p>
              Its next request is refused, for good, and its name stays taken. What it has spent stays in the books.
            </p>`
          )
        : null
    }
  `
}
