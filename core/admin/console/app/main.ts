// Where the page begins: finds out who is there, and draws over what came as HTML.
import { h, render } from 'preact'
import { App } from './app.ts'
import { findWho } from './api.ts'
import { keepFocus } from './focus.ts'
import { shownError } from './load.ts'
import { loadPage } from './pages.ts'
import { address, listen } from './router.ts'
import { nameSigns } from './signs.ts'

const root = document.getElementById('console')!
listen()
nameSigns()
keepFocus()
// The code of the page comes while the API is asked. Why it does not come, the page says when it tries again.
const [error] = await Promise.all([
  findWho().then(() => undefined, shownError),
  loadPage(address.value.place).catch(() => {})
])
root.replaceChildren()
render(h(App, { error }), root)
