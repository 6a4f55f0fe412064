// The configuration: the one in use, the files in an editor, and those that were in use before.
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { Head } from '../../parts/head.ts'
import { address, linkTo } from '../../router.ts'
import { may } from '../../session.ts'
import { Files } from './files.ts'
import { History } from './history.ts'
import { InUse } from './in-use.ts'

const tabs = [
  { name: '', title: 'In use' },
  { name: 'files', title: 'Files', needs: 'operate' },
  { name: 'history', title: 'History' }
] as const

/** The page. */
export default function ConfigurationPage(): VNode {
  const [tab = ''] = address.value.rest
  const shown = tabs.filter((one) => !('needs' in one) || may({ needs: one.needs }))
  return html`
    ${h(Head, { title: 'Configuration', about: 'What gateway.yaml says, and what it said before. The file is the truth: nothing overrides it.' })}
    <nav aria-label="Views of the configuration">
      <ul class="tabs">
        ${shown.map(
          ({ name, title }) =>
            html`<li>
              <a
                href=${linkTo('configuration', name === '' ? [] : [name])}
                aria-current=${tab === name ? 'page' : undefined}
                >${title}</a
              >
            </li>`
        )}
      </ul>
    </nav>
    ${tab === 'files' ? h(Files, {}) : tab === 'history' ? h(History, {}) : h(InUse, {})}
  `
}
