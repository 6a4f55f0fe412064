// With which key, which models and which protocol.
import { useEffect } from 'preact/hooks'
import { ApiError, get } from '../../api.ts'
import type { Page } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import type { Loaded } from '../../load.ts'
import { setQuery } from '../../router.ts'
import { may } from '../../session.ts'
import { dialects } from './dialects/dialects.ts'
import { secret } from './draft.ts'
import type { Setup } from './draft.ts'
import { listAt, textAt } from './json.ts'
import { reach, refusalIn } from './run.ts'

/** What was typed or chosen. */
export const valueOf = (event: Event): string => (event.target as HTMLInputElement).value

/** The models that a key may use; none before there is a key. */
export function useModels(key: string | undefined): Loaded<readonly string[]> {
  const typed = key === undefined ? secret.value : ''
  return useLoad(
    async (signal) => {
      if (key === '' || (key === undefined && typed === '')) return []
      const reply = await reach(key, '/v1/models', { method: 'GET', signal })
      if (!reply.ok) {
        const { message, code } = await refusalIn(reply)
        throw new ApiError(reply.status, code, message)
      }
      return listAt(await reply.json(), 'data').map((model) => textAt(model, 'id'))
    },
    [key, typed]
  )
}

/** The fields. `models` are those that the key may use. */
export function Settings({ now, models }: { now: Setup; models: Loaded<readonly string[]> }): VNode {
  const names = models.data ?? []
  useEffect(() => {
    if (now.model === '' && names[0] !== undefined) setQuery({ model: names[0] })
  }, [names])
  return html`
    <div class="choices">
      ${h(KeyFields, { now })}
      <label class="field"
        ><span>Model</span>
        <input
          list="playground-models"
          autocomplete="off"
          spellcheck=${false}
          value=${now.model}
          onChange=${(event: Event) => setQuery({ model: valueOf(event) })}
        />
      </label>
      <datalist id="playground-models">${names.map((name) => html`<option value=${name}></option>`)}</datalist>
      ${
        now.view === 'chat'
          ? html`<label class="field"
                ><span>Compare with</span>
                <input
                  list="playground-models"
                  autocomplete="off"
                  spellcheck=${false}
                  placeholder="no other model"
                  value=${now.other}
                  onChange=${(event: Event) => setQuery({ other: valueOf(event) })}
                />
              </label>
              <label class="field"
                ><span>Protocol</span>
                <select onChange=${(event: Event) => setQuery({ protocol: valueOf(event) })}>
                  ${dialects.map(
                    ({ name, title }) =>
                      html`<option value=${name} selected=${name === now.dialect.name}>${title}</option>`
                  )}
                </select>
              </label>`
          : null
      }
    </div>
    ${models.error ? html`<p class="notice bad" role="alert"><b>✕</b> ${models.error.message}</p>` : null}
  `
}

/** A key by its name, for those who may, or by its secret. */
function KeyFields({ now }: { now: Setup }): VNode {
  const names = may({ needs: 'manage' })
  const keys = useLoad(
    async (signal) => (names ? (await get<Page<ListedKey>>('/admin/v1/keys', { limit: 1000 }, signal)).data : []),
    [names]
  )
  const typed = now.key === undefined || !names
  useEffect(() => {
    if (!names && now.key !== undefined) setQuery({ typed: 'yes', key: undefined })
  }, [])
  const pick = (event: Event): void => {
    const value = valueOf(event)
    setQuery(value === '/typed' ? { typed: 'yes', key: undefined } : { typed: undefined, key: value })
  }
  const usable = (keys.data ?? []).filter(({ state }) => state === 'active')
  const strange = now.key !== undefined && now.key !== '' && !usable.some(({ name }) => name === now.key)
  return html`
    ${
      names
        ? html`<label class="field"
            ><span>Key</span>
            <select onChange=${pick}>
              <option value="" selected=${now.key === ''}>Choose a key</option>
              ${strange ? html`<option value=${now.key} selected>${now.key}</option>` : null}
              ${usable.map(({ name }) => html`<option value=${name} selected=${name === now.key}>${name}</option>`)}
              <option value="/typed" selected=${now.key === undefined}>Type the secret of a key</option>
            </select>
          </label>`
        : null
    }
    ${
      typed
        ? html`<label class="field"
            ><span>Secret of the key</span>
            <input
              type="password"
              autocomplete="off"
              placeholder="sk-…"
              value=${secret.value}
              onChange=${(event: Event) => (secret.value = valueOf(event).trim())}
            />
          </label>`
        : null
    }
  `
}

interface ListedKey {
  readonly name: string
  readonly state: string
}
