// The page of the console as HTML: what is to be seen before the first script runs. It tells nothing of the gateway.
import { groups, places } from './app/places.ts'
import type { Place } from './app/places.ts'
import { assetOf, types } from './asset.ts'
import type { Asset } from './asset.ts'
import { pageHeaders } from './protection.ts'

/** The page, with the headers that it takes. */
export interface Shell {
  readonly page: Asset
  readonly headers: Readonly<Record<string, string>>
}

/** What the page has in itself, and the addresses below `/console/` of the files that it loads. */
export interface ShellParts {
  /** What the page asks the API for first, and whether that is about the whole gateway. */
  readonly place: Pick<Place, 'asks' | 'whole'> | undefined
  /** The text of first.ts and of all styles: with them in the page, nothing has to come before it is painted. */
  readonly first: string
  readonly style: string
  readonly script: string
  /** What the script imports, so that the browser need not find out step by step. */
  readonly preload: readonly string[]
  /** JSON; absent when the script imports nothing by a bare name. */
  readonly importMap?: string
}

/** Makes the page. */
export async function shellOf({ place, first, style, script, preload, importMap }: ShellParts): Promise<Shell> {
  const asks = place?.asks === undefined ? '' : ` data-asks="${place.asks}"${place.whole ? ' data-whole' : ''}`
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Sluice</title>
<link rel="icon" href="/console/app/icon.svg" type="image/svg+xml">
<script${asks}>${first}</script>
<style>${style}</style>
${importMap === undefined ? '' : `<script type="importmap">${importMap}</script>`}
${preload.map((name) => `<link rel="modulepreload" href="/console/${name}">`).join('\n')}
<script type="module" src="/console/${script}"></script>
</head>
<body>
<div id="console">
<header class="bar"><span class="brand">Sluice</span></header>
<div class="frame">
<nav class="places" aria-label="Pages">${navigation()}</nav>
<main id="main"><p class="quiet" role="status">Loading…</p></main>
</div>
</div>
<noscript><p class="notice bad">The console needs JavaScript. What it shows is in the admin API as well: /admin/openapi.json.</p></noscript>
</body>
</html>
`
  const scripts = importMap === undefined ? [first] : [first, importMap]
  return { page: await assetOf(types.page, Buffer.from(page)), headers: pageHeaders(scripts, style) }
}

/** The same that the script draws later for somebody who may see all, so that nothing moves. */
function navigation(): string {
  return groups
    .map((group) => {
      const links = places
        .filter((place) => place.group === group)
        .map(({ path, title }) => `<li><a href="/console/${path}">${title}</a></li>`)
      return links.length === 0 ? '' : `<h2>${group}</h2><ul>${links.join('')}</ul>`
    })
    .join('')
}
