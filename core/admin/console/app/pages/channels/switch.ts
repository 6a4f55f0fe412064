// Drains a channel, switches it off, or enables it again, after saying what follows from it.
import { send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { say } from '../../parts/announcer.ts'
import { Confirm } from '../../parts/dialog.ts'
import { pathOf } from './channel.ts'
import type { Channel } from './channel.ts'

const titles = { drain: 'Drain', off: 'Switch off', on: 'Enable' } as const
const bodies = { drain: { drain: true }, off: { enabled: false }, on: {} } as const
const effects = {
  drain: 'Nothing new is sent there; what runs goes on to its end.',
  off: 'No request of a client is sent there, from the next one on.',
  on: 'Requests are sent there again, as its health allows.'
} as const

/** Asks, and does it. */
export function Switch(props: {
  channel: Channel
  to: keyof typeof titles
  close: () => void
  done: (channel: Channel) => void
}): VNode {
  const { channel, to, close, done } = props
  const { name, models } = channel
  const act = async (): Promise<void> => {
    const changed = await send<Channel>('PATCH', pathOf(name), bodies[to])
    say(`${name} is ${changed.state}`)
    done(changed)
  }
  const served = Object.keys(models)
  return h(
    Confirm,
    { title: `${titles[to]} ${name}`, action: titles[to], act, close },
    html`<p>${effects[to]} It stays so over restarts, until it is undone, and is in the audit log.</p>
      ${
        to === 'on'
          ? null
          : html`<p>
              It serves ${served.length === 1 ? 'the model' : `${served.length} models:`}
              <b>${served.slice(0, 10).join(', ')}${served.length > 10 ? ', …' : ''}</b>. A model without another
              channel that works is refused.
            </p>`
      }`
  )
}
