#!/usr/bin/env node
// The published command. It tells an old Node which version is needed, in words that any version can read: the rest of
// the program it could not even load. So the import is in a file of its own, and the syntax is that of 2009.
/* oxlint-disable no-var, prefer-template */
var version = process.versions.node.split('.').map(Number)
var major = version[0] || 0
if (major > 24 || (major === 24 && (version[1] || 0) >= 16)) require('./bin-main.cjs')
else {
  process.stderr.write(
    'sluice needs Node 24.16 or later, and this is ' +
      process.versions.node +
      ': install a newer one (https://nodejs.org), or take one for this command alone with ' +
      '`npx --package=node@24 --package=sluice sluice`\n'
  )
  process.exitCode = 1
}
