// The channels: how each is doing, and what an operator can do about it: test, drain, switch off and on.
import { useEffect, useState } from 'preact/hooks'
import { get } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useList } from '../../load.ts'
import { Head } from '../../parts/head.ts'
import { duration, percent, perSecond, short } from '../../parts/number.ts'
import { Failure, Nothing } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { Text } from '../../parts/text.ts'
import { Time } from '../../parts/time.ts'
import { Tip } from '../../parts/tip.ts'
import { address, linkTo, setQuery } from '../../router.ts'
import { may } from '../../session.ts'
import { tones, whyOf } from './channel.ts'
import type { Channel } from './channel.ts'
import { buttonsOf } from './buttons.ts'
import type { Doing } from './buttons.ts'
import { Detail } from './detail.ts'
import { Switch } from './switch.ts'
import { Test } from './test.ts'

/** Milliseconds between two looks at how they are doing, while the page is seen. */
const lookEvery = 5000
/** A credential that ends within so many milliseconds is told. */
const soon = 14 * 86_400_000

/** The page. */
export default function ChannelsPage(): VNode {
  const { query, rest } = address.value
  const model = query.get('model') ?? ''
  const list = useList<Channel>('/admin/v1/channels')
  const [fresh, setFresh] = useState<readonly Channel[]>()
  const [doing, setDoing] = useState<Doing>()
  const looked = fresh ?? list.rows
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'hidden' || list.more) return
      get<{ data: Channel[] }>('/admin/v1/channels').then(
        ({ data }) => setFresh(data),
        () => {}
      )
    }, lookEvery)
    return () => clearInterval(timer)
  }, [list.more === undefined])
  const rows = model === '' ? looked : looked.filter(({ models }) => model in models)
  const open = looked.find(({ name }) => name === rest[0])
  const close = (): void => setDoing(undefined)
  const done = (channel: Channel): void => {
    setFresh(looked.map((one) => (one.name === channel.name ? channel : one)))
    close()
  }
  const operates = may({ needs: 'operate' })
  return html`
    ${h(Head, { title: 'Channels', about: 'The upstreams behind the models, and how they are doing.' })}
    ${list.error ? h(Failure, { error: list.error, again: list.again }) : null}
    ${
      model === ''
        ? null
        : html`<p class="chips">
            <span class="chip"
              >with the model ${h(Text, { text: model, most: 60 })}
              <button
                type="button"
                class="plain"
                aria-label="Show all channels"
                onClick=${() => setQuery({ model: undefined })}
              >
                ✕
              </button></span
            >
          </p>`
    }
    <div class=${open ? 'split' : ''}>
      ${h(Table<Channel>, {
        name: 'channels',
        columns: operates ? [...columns, actions(setDoing)] : columns,
        rows,
        keyOf: ({ name }) => name,
        open: ({ name }) => linkTo('channels', [name], { model }),
        current: rest[0],
        more: list.more,
        busy: list.busy,
        empty: h(
          Nothing,
          { title: model === '' ? 'There are no channels' : 'No channel has this model' },
          html`<p>They are declared in gateway.yaml, below channels.</p>`
        )
      })}
      ${open ? h(Detail, { channel: open, key: open.name, act: operates ? setDoing : undefined }) : null}
    </div>
    ${doing?.what === 'test' ? h(Test, { channel: doing.channel, close }) : null}
    ${doing && doing.what !== 'test' ? h(Switch, { channel: doing.channel, to: doing.what, close, done }) : null}
  `
}

const columns: readonly Column<Channel>[] = [
  { id: 'name', title: 'Name', value: ({ name }) => name },
  {
    id: 'state',
    title: 'State',
    value: ({ state }) => state,
    cell: (channel) => {
      const why = whyOf(channel)
      const state = h(Status, { tone: tones[channel.state] }, channel.state)
      return why === undefined ? state : h(Tip, { tip: why }, state)
    }
  },
  { id: 'protocol', title: 'Protocol', value: ({ protocol }) => protocol },
  { id: 'models', title: 'Models', align: 'end', value: ({ models }) => Object.keys(models).length },
  {
    id: 'recent',
    title: 'Attempts, 5 min',
    align: 'end',
    value: ({ health }) => health?.recent ?? null,
    cell: ({ health }) => (health ? short(health.recent) : '–')
  },
  {
    id: 'failed',
    title: 'Failed',
    align: 'end',
    value: ({ health }) => health?.error_rate ?? null,
    cell: ({ health }) => (health?.error_rate === null || !health ? '–' : percent(health.error_rate))
  },
  {
    id: 'p50',
    title: 'First event, p50',
    align: 'end',
    value: ({ health }) => health?.first_event_ms?.p50 ?? null,
    cell: ({ health }) => (health?.first_event_ms ? duration(health.first_event_ms.p50) : '–')
  },
  {
    id: 'p95',
    title: 'p95',
    align: 'end',
    value: ({ health }) => health?.first_event_ms?.p95 ?? null,
    cell: ({ health }) => (health?.first_event_ms ? duration(health.first_event_ms.p95) : '–')
  },
  {
    id: 'tokens',
    title: 'Tokens',
    align: 'end',
    optional: true,
    value: ({ health }) => health?.tokens_per_second ?? null,
    cell: ({ health }) => (health?.tokens_per_second ? perSecond(health.tokens_per_second) : '–')
  },
  {
    id: 'expires',
    title: 'Credential until',
    value: ({ credential_expires }) => credential_expires,
    cell: ({ credential_expires: at }) =>
      at === null
        ? html`<span class="quiet">not known</span>`
        : html`${Date.parse(at) - Date.now() < soon ? h(Status, { tone: Date.parse(at) < Date.now() ? 'bad' : 'warn' }, Date.parse(at) < Date.now() ? 'expired' : 'soon') : null}
          ${h(Time, { at })}`
  }
]

function actions(act: (doing: Doing) => void): Column<Channel> {
  return { id: 'actions', title: 'Actions', cell: (channel) => buttonsOf(channel, act) }
}
