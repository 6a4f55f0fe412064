#!/usr/bin/env node
// The published command: says which Node it needs where that is an older one, which cannot load the rest.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major > 24 || (major === 24 && minor >= 16)) await import('./main.ts')
else {
  process.stderr.write(
    `sluice needs Node 24.16 or later, and this is ${process.versions.node}: install a newer one (https://nodejs.org), ` +
      'or take one for this command alone with `npx --package=node@24 --package=sluice sluice`\n'
  )
  process.exitCode = 1
}
