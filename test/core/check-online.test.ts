// `sluice check --online`: the channels of a file are tried without a gateway, and nothing is left behind.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { sluice } from '../kit/command.ts'
import { eventually } from '../kit/probe.ts'
import { bytes, head, until, Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

const chain = 'chain: [auth, quota, route, protocol-translate, usage-meter, log: { sink: ./requests.jsonl }]'
const file = (channels: string): string => {
  const folder = t.testdir({ 'gateway.yaml': '' })
  writeFileSync(
    join(folder, 'gateway.yaml'),
    `channels:\n  good: { protocol: simulator, models: { demo: d } }\n${channels}models: { demo: { price: { input: 1, output: 2 } } }\n${chain}\n`
  )
  return join(folder, 'gateway.yaml')
}

t.test('each channel is tried, and nothing is left behind', async (t) => {
  const temporary = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  t.teardown(() => rmSync(temporary, { recursive: true }))
  const right = file('')
  const ran = await sluice(['check', '--online', '--config', right], { alone: true, env: { TMPDIR: temporary } })
  t.match(ran, {
    code: 0,
    err: /^(?:trying the channels, \d+ s\n)*$/,
    out: /is right[^]*\nCHANNEL .*\ngood +chat +demo +ok +200 /
  })
  t.strictSame(readdirSync(join(right, '..')), ['gateway.yaml'], 'neither a store nor the log of the chain')
  t.strictSame(
    readdirSync(temporary).filter((name) => name.startsWith('sluice-check-')),
    []
  )
})

t.test('a channel that fails makes the check fail, with the reason', async (t) => {
  const down =
    '  down: { protocol: openai, base_url: "http://127.0.0.1:1/v1", private: true, enabled: false, models: { demo: d } }\n'
  const ran = await sluice(['check', '--online', '--json', '--config', file(down)])
  t.equal(ran.code, 3)
  const { ok, channels } = JSON.parse(ran.out)
  t.equal(ok, true, 'the file itself is right')
  t.match(channels, [
    { channel: 'good', endpoint: 'chat', model: 'demo', ok: true, status: 200, cost_usd: /^0\.0/ },
    { channel: 'down', ok: false, status: null, error: { code: 'upstream_connection_failed' } }
  ])
})

t.test('eight channels are tried at a time, and each is reported in its place', async (t) => {
  const release = Promise.withResolvers<void>()
  const body = JSON.stringify(chatAnswer())
  const answer = [head(200, { 'content-type': 'application/json', 'content-length': String(body.length) }), bytes(body)]
  const slow = (await Upstream.start(t)).always(until(release.promise), ...answer)
  const quick = (await Upstream.start(t)).always(...answer)
  const channels = Array.from({ length: 20 }, (_, index) => {
    const { url } = index % 2 === 0 ? slow : quick
    return `  c${index}: { protocol: openai, base_url: "${url}", private: true, models: { demo: d } }\n`
  })
  const ending = sluice(['check', '--online', '--json', '--config', file(channels.join(''))])
  await eventually(() => slow.requests.length === 8, 30_000)
  t.equal(quick.requests.length, 7, 'those that are before the eighth that waits, and no other')
  release.resolve()
  const ran = await ending
  t.equal(ran.code, 0)
  const names = JSON.parse(ran.out).channels.map(({ channel }: { channel: string }) => channel)
  t.strictSame(names, ['good', ...channels.map((_, index) => `c${index}`)])
})

t.test('a file with problems is not tried', async (t) => {
  t.match(await sluice(['check', '--online', '--config', file('  bad: {}\n')]), {
    code: 2,
    out: /channels\.bad: "protocol" is missing/
  })
})
