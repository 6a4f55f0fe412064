// The vendors' Python libraries hold the same conversation as those for Node, by way of every channel.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { gateway, testKey } from '../kit/gateway.ts'
import type { TestGateway } from '../kit/gateway.ts'
import type { Said } from './clients/library.ts'
import { channels, checkTalk, newest, startAll, stepsOf } from './clients/script.ts'
import { keeping, python } from './python/venv.ts'

// Only the first run installs, which may take a while.
t.setTimeout(600_000)
const interpreter = python()
const options = {
  timeout: 600_000,
  skip: interpreter === undefined && 'There is no python3 with venv and ensurepip (Debian: python3-venv).'
}

/** What a script prints of one conversation. */
interface Talk {
  protocol: string
  channel: string
  streamed: boolean
  said: Said[]
}

/** What a script prints. */
function run(local: TestGateway, script: string, input = ''): Promise<string> {
  const env = { ...process.env, ...keeping, SLUICE_URL: local.url, SLUICE_KEY: testKey }
  return new Promise((resolve, reject) => {
    const child = execFile(
      interpreter!,
      [join(import.meta.dirname, `python/${script}.py`)],
      { env, encoding: 'utf8' },
      (error, stdout, stderr) => {
        if (error) reject(new Error(stderr))
        else resolve(stdout)
      }
    )
    child.stdin!.end(input)
  })
}

for (const library of ['openai', 'anthropic', 'google']) {
  t.test(
    `the library of ${library} for Python holds a conversation with tools by way of every channel`,
    options,
    async (t) => {
      const local = await startAll(t)
      const printed = await run(
        local,
        `with_${library}`,
        JSON.stringify({ channels: channels, steps: stepsOf(true).map(({ say }) => say) })
      )
      const talks = printed
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Talk)
      const records = await newest(
        local,
        talks.reduce((sum, { said }) => sum + said.length, 0)
      )
      t.equal(talks.length % (2 * channels.length), 0)
      for (const { said, ...way } of talks) checkTalk(t, way, said, records.splice(0, said.length))
    }
  )
}

t.test(
  'the library of openai for Python keeps responses, by way of an upstream and by way of the gateway, and speaks',
  options,
  async (t) => {
    const price = { input: 1, output: 2 }
    const local = await gateway(t, {
      channels: {
        native: { protocol: 'simulator', endpoints: ['responses', 'realtime'], models: { native: 'demo' } },
        chat: { protocol: 'simulator', endpoints: ['chat'], models: { own: 'demo' } }
      },
      models: { native: { price }, own: { price, state: 'gateway' } },
      state: { key: 'a secret of the operator that nobody else knows' }
    })
    const { native, own, realtime } = JSON.parse(await run(local, 'kept_with_openai'))
    for (const kept of [native, own]) {
      t.match(kept, {
        grew: true,
        previous: true,
        text: 'Done.',
        items: ['message'],
        again: true,
        cancelled: 'cancelled',
        gone: /Response not found/
      })
      t.match([kept.types[0], kept.types.at(-1)], ['response.created', 'response.completed'])
    }
    t.match(realtime, { text: 'Hello from here', status: 'completed', tokens: /^\d+$/ })
  }
)
