// Where the page begins: finds out who is there, and draws over what came as HTML.
import { h, render } from 'preact'
import { App } from './app.ts'
import { findWho } from './api.ts'
import { shownError } from './load.ts'
import { pages } from './pages.ts'
import { address, listen } from './router.ts'
import { nameSigns } from './signs.ts'

const root = document.getElementById('console')!
// The code of the page comes while the API is asked.
void pages[address.value.place]?.()
listen()
nameSigns()
const error = await findWho().then(() => undefined, shownError)
root.replaceChildren()
render(h(App, { error }), root)
