// The page of the console as HTML: what is to be seen before the first script runs. It tells nothing of the gateway.
import { groups, places } from './app/places.ts'
import { assetOf, types } from './asset.ts'
import type { Asset } from './asset.ts'
import { pageHeaders } from './protection.ts'

/** The page, with the headers that it takes. */
export interface Shell {
  readonly page: Asset
  readonly headers: Readonly<Record<string, string>>
}

/** The names of the files that the page loads. */
export interface ShellParts {
  readonly script: string
  /** What the script imports, so that the browser need not find out step by step. */
  readonly preload: readonly string[]
  readonly style: string
  /** JSON; absent when the script imports nothing by a bare name. */
  readonly importMap?: string
}

/** Makes the page. */
export function shellOf({ script, preload, style, importMap }: ShellParts): Shell {
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Sluice</title>
<link rel="icon" href="/console/app/icon.svg" type="image/svg+xml">
<script src="/console/app/first.ts"></script>
<link rel="stylesheet" href="/console/${style}">
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
  return { page: assetOf(types.page, Buffer.from(page)), headers: pageHeaders(importMap) }
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
