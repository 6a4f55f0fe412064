// Where the browser of the tests is: Debian's Chromium.
import { existsSync } from 'node:fs'

/**
 * The first is the engine of the second without the browser around it: a page takes three fifths of the CPU time.
 * Older Debians do not have it.
 */
const programs = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium']

/**
 * The path of the browser.
 * @throws Error when there is none
 */
export function chromiumProgram(): string {
  const found = programs.find((program) => existsSync(program))
  if (found !== undefined) return found
  throw new Error(
    'Tests of the console need a browser: apt-get install -y --no-install-recommends chromium-headless-shell fonts-dejavu-core fonts-noto-color-emoji'
  )
}
