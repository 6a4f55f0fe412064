// Runs the contract test on plugins that break the contract: each mistake must be found, in the test of the plugin that
// makes it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'

t.setTimeout(600_000)

/** By plugin, the name of the test that must fail. */
const found: Readonly<Record<string, RegExp>> = {
  'keeps-what-it-took': /whatever it takes it gives back/,
  'leaves-a-slot-empty': /whatever it takes it gives back/,
  'leaves-a-timer': /a generation leaves nothing behind/,
  'fails-when-told': /whatever it takes it gives back/,
  'looks-at-pieces': /in whatever pieces and protocol it comes/,
  'reads-chat-alone': /in whatever pieces and protocol it comes/,
  'knows-chat-alone': /operations that are no conversations do not break it/,
  'wants-other-names': /options are documented and checked/
}

t.test('each mistake is found', async (t) => {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'mistakes.ts')], {
    stdio: ['ignore', 'pipe', 'ignore']
  })
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')])
  const failed = [...output.matchAll(/^not ok \d+ - (.*?)(?: #.*)?$/gm)].map(([, name]) => name!)
  for (const [plugin, what] of Object.entries(found)) {
    t.ok(
      failed.some((name) => name.startsWith(`${plugin}: `) && what.test(name)),
      `${plugin} is found out, in ${failed.filter((name) => name.startsWith(plugin)).join('; ')}`
    )
  }
  t.notMatch(output, /ok \d+ - timeout/)
})
