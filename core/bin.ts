#!/usr/bin/env node
// The published command. An old version of Node could not load the rest of the program, so it is only told which
// version is needed.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major > 24 || (major === 24 && minor >= 16)) await import('./main.ts')
else {
  process.stderr.write(
    `sluice needs Node 24.16 or later, and this is ${process.versions.node}: install a newer one (https://nodejs.org), ` +
      'or take one for this command alone with `npx --package=node@24 --package=sluice sluice`\n'
  )
  process.exitCode = 1
}
