// What can be done with a channel: the buttons in its row and in its panel.
import { html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import type { Channel } from './channel.ts'

/** What is being done in a dialog. */
export type Doing = { what: 'test' | 'drain' | 'off' | 'on'; channel: Channel }

/** The buttons of a channel: those that change something in its state. */
export function buttonsOf(channel: Channel, act: (doing: Doing) => void): VNode[] {
  const button = (what: Doing['what'], title: string): VNode =>
    html`<button
      type="button"
      class="small"
      aria-label=${`${title}: ${channel.name}`}
      onClick=${() => act({ what, channel })}
    >
      ${title}
    </button> `
  const { operator, file } = channel.switched
  return [
    button('test', 'Test'),
    ...(operator === 'on' && file === 'on' ? [button('drain', 'Drain'), button('off', 'Switch off')] : []),
    ...(operator === 'on' ? [] : [button('on', 'Enable')])
  ]
}
