// Several credentials and limits of channels in gateway.yaml: what is wrong, what is doubtful, and what is never shown.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { loadConfig } from '../../config/load.ts'
import { plugins } from './plugins.ts'

const simulatorUrl = new URL('http://127.0.0.1:1/v1')
const env = { A: 'sk-up-aaaaaaaaaaaa', B: 'sk-up-bbbbbbbbbbbb' }

function load(t: Test, channel: object): ReturnType<typeof loadConfig> {
  const file = join(t.testdir(), 'gateway.yaml')
  const up = { protocol: 'openai', base_url: 'https://api.example.com/v1', models: { m: 'm' }, ...channel }
  writeFileSync(file, stringify({ channels: { up }, models: { m: { price: 'free' } }, chain: [{ auth: {} }] }))
  return loadConfig(file, { env, plugins, simulatorUrl })
}

function problems(t: Test, channel: object): string {
  return (load(t, channel).problems ?? []).map(({ message }) => message).join('\n')
}

function warnings(t: Test, channel: object): string {
  const { config } = load(t, channel)
  return config!.warnings.map(({ message }) => message).join('\n')
}

t.test('what cannot be meant is a problem', (t) => {
  const cases: [object, RegExp][] = [
    [{ credential: '${A}', credentials: ['${B}'] }, /credentials: there is "credential" already/],
    [{ credentials: [] }, /credentials/],
    [{ credentials: [''] }, /is empty: give the key/],
    [{ credentials: ['${A}', { key: '${A}', name: 'b' }] }, /is the same as the credential "1"/],
    [
      {
        credentials: [
          { key: '${A}', name: 'x' },
          { key: '${B}', name: 'x' }
        ]
      },
      /is called "x" too/
    ],
    [{ credentials: [{ name: 'x' }] }, /must say one of key, file/],
    [{ credentials: [{ key: '${A}', file: './key' }] }, /not key and file/],
    [{ credentials: [{ key: '${A}', rpm: 0 }] }, /rpm.*must be/],
    [{ credentials: [{ key: '${A}', weight: -1 }] }, /weight.*must be/],
    [{ credentials: ['${A}'], headers: { authorization: 'x' } }, /there is a credential already/],
    [{ credentials: Array.from({ length: 101 }, (_, at) => `key-number-${at}`) }, /more than 100 credentials/],
    [{ limits: { concurrency: 0 } }, /concurrency.*must be/],
    [{ limits: { rps: 5 } }, /rps/]
  ]
  for (const [channel, said] of cases) {
    const found = problems(t, channel)
    t.match(found, said)
    for (const key of Object.values(env)) t.notOk(found.includes(key), 'no key is shown')
  }
  t.end()
})

t.test('what is doubtful is warned of', (t) => {
  t.match(warnings(t, { credentials: [{ key: '${A}', weight: 0 }, '${B}'] }), /used only when no other one can be/)
  t.match(
    warnings(t, {
      credentials: [
        { key: '${A}', weight: 0 },
        { key: '${B}', weight: 0 }
      ]
    }),
    /every weight is 0/
  )
  t.match(warnings(t, { limits: {} }), /limits nothing/)
  t.match(warnings(t, { limits: { models: { 'gpt-*': { rpm: 1 } } } }), /no model is meant by/)
  t.match(warnings(t, { credentials: ['sk-in-clear-00000000'] }), /a secret in clear/)
  t.end()
})

t.test('a list of credentials makes one channel, with each of them', (t) => {
  const { config } = load(t, {
    credentials: ['${A}', { key: '${B}', name: 'b', weight: 3, rpm: 10 }],
    limits: { concurrency: 5, models: { m: { tpm: 100 } } }
  })
  const channel = config!.channels.get('up')!
  t.equal(channel.credential, env.A, 'its own is the first')
  t.match(channel.limits, { concurrency: 5, models: { m: { tpm: 100 } } })
  t.match(channel.byCredential, [
    { name: 'up', credentialName: '1', weight: 1, headers: { authorization: `Bearer ${env.A}` } },
    { name: 'up', credentialName: 'b', weight: 3, limits: { rpm: 10 }, headers: { authorization: `Bearer ${env.B}` } }
  ])
  t.equal(load(t, { credential: '${A}' }).config!.channels.get('up')!.byCredential, undefined)
  t.end()
})
