// Asks whoever opens the page to sign in; over the page they were on when their session ended.
import { useEffect, useRef, useState } from 'preact/hooks'
import { get, send } from './api.ts'
import { h, html } from './html.ts'
import type { VNode } from './html.ts'
import { useLoad } from './load.ts'
import { useAction } from './parts/dialog.ts'
import { Failure, Problem, Waiting } from './parts/states.ts'
import { who } from './session.ts'
import type { Who } from './session.ts'

/** How people can sign in, as the API says. */
interface Ways {
  readonly token: boolean
  readonly oidc: boolean
  /** Whether nobody on the way can read what the browser sends. */
  readonly private: boolean
}

/** The sign-in. `again`: a session has ended, and what was typed is behind this. */
export function SignIn({ again = false }: { again?: boolean }): VNode {
  const ways = useLoad((signal) => get<Ways>('/admin/sign-in', {}, signal), [])
  const box = useRef<HTMLElement>(null)
  useEffect(() => {
    if (!again) document.title = 'Sign in · Sluice'
    box.current?.querySelector<HTMLElement>('input, a')?.focus()
  }, [ways.data])
  return html`
    <section class=${again ? '' : 'card'} ref=${box}>
      ${again ? null : html`<h1>Sign in to Sluice</h1>`}
      ${again ? html`<p>What you have typed is kept. Sign in to go on.</p>` : null}
      ${
        ways.data
          ? h(WaysIn, { ways: ways.data, again })
          : ways.error
            ? h(Failure, { error: ways.error, again: ways.again })
            : h(Waiting, {})
      }
    </section>
  `
}

function WaysIn({ ways, again }: { ways: Ways; again: boolean }): VNode {
  const [token, setToken] = useState('')
  const { run, busy, error } = useAction(async () => {
    who.value = await send<Who>('POST', '/admin/v1/session', { token: token.trim() })
  })
  const submit = (event: Event): void => {
    event.preventDefault()
    run()
  }
  const path = location.pathname
  return html`
    ${
      ways.private
        ? null
        : html`<p class="notice warn">
            This address is plain http: others on the way can read what you send. Use https, or a tunnel.
          </p>`
    }
    ${
      ways.oidc
        ? html`<p>
            <a class="button primary" href=${`/admin/login?to=${path}`} target=${again ? '_blank' : undefined}
              >Sign in with OpenID Connect</a
            >
          </p>`
        : null
    }
    ${again && ways.oidc ? h(SignedInElsewhere, {}) : null}
    <form onSubmit=${submit}>
      <div class="field">
        <label class="label" for="token">Token</label>
        <input
          id="token"
          type="password"
          name="password"
          autocomplete="current-password"
          required
          value=${token}
          onInput=${(event: Event) => setToken((event.target as HTMLInputElement).value)}
        />
        <span class="help"><code>admin.token</code> of gateway.yaml, or an operator’s token.</span>
      </div>
      ${error ? h(Problem, { error }) : null}
      <p class="actions">
        <button class=${ways.oidc ? '' : 'primary'} disabled=${busy}>${busy ? 'Signing in…' : 'Sign in'}</button>
      </p>
    </form>
  `
}

function SignedInElsewhere(): VNode {
  const { run, busy, error } = useAction(async () => {
    who.value = await get<Who>('/admin/v1/session')
  })
  return html`
    <p><button type="button" disabled=${busy} onClick=${run}>I have signed in there</button></p>
    ${error ? h(Problem, { error }) : null}
  `
}
