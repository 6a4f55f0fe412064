// How a channel connects: which proxy it goes through, which HTTP it speaks and by whom, and what is said of what
// cannot be.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../config/load.ts'
import type { Loaded } from '../../config/load.ts'
import type { Channel } from '../../core/catalogue/catalogue.ts'
import { plugins } from './plugins.ts'

const file = join(t.testdir(), 'gateway.yaml')

function load(
  lines: string,
  env: Record<string, string> = {},
  address = 'base_url: https://one.example/v1',
  protocol = 'openai'
): Loaded {
  writeFileSync(
    file,
    `
channels:
  up:
    protocol: ${protocol}
    ${address}
    models: { demo: x }
    ${lines}
models: { demo: { price: free } }
chain: [auth]
`
  )
  return loadConfig(file, { env, plugins, simulatorUrl: new URL('http://127.0.0.1:41234/v1') })
}

function channel(...parts: Parameters<typeof load>): Channel {
  const { config, problems } = load(...parts)
  if (!config) throw new Error(problems.map(({ place, message }) => `${place} ${message}`).join('\n'))
  return config.channels.get('up')!
}

function says(...parts: Parameters<typeof load>): string[] {
  return (load(...parts).problems ?? []).map(({ place, message }) => `${place.replace(file, '')} ${message}`)
}

/** The proxy that leads to an address in such an environment. */
const through = (address: string, env: Record<string, string>): string | undefined =>
  channel('', env, `base_url: ${address}\n    private: true`).proxy?.url.href

t.test('our own client is taken unless something asks for the other', (t) => {
  t.match(channel(''), { transport: 'own', http: 1, proxy: undefined, tls: undefined })
  t.match(channel('transport: own'), { transport: 'own' })
  t.match(channel('transport: undici'), { transport: 'undici', http: 1 })
  t.match(channel('http: 1'), { transport: 'own' })
  t.match(channel('http: 2'), { transport: 'undici', http: 2 })
  t.match(channel('proxy: http://proxy.internal:3128'), { transport: 'undici' })
  t.match(channel('', { HTTPS_PROXY: 'http://proxy.internal:3128' }), { transport: 'undici' })
  t.match(channel('proxy: none', { HTTPS_PROXY: 'http://proxy.internal:3128' }), { transport: 'own', proxy: undefined })
  t.match(channel('', { HTTPS_PROXY: 'http://proxy.internal:3128' }, '', 'simulator'), {
    transport: 'own',
    proxy: undefined
  })
  t.end()
})

t.test('a proxy is an address, with what it wants to hear of who asks', (t) => {
  const proxy = (text: string): unknown => channel(`proxy: "${text}"`).proxy
  t.match(proxy('http://proxy.internal:3128'), {
    url: new URL('http://proxy.internal:3128'),
    authorization: undefined,
    from: 'file'
  })
  t.match(proxy('https://10.0.0.1'), { url: new URL('https://10.0.0.1') })
  t.match(proxy('http://us%40er:p%3Ass@proxy.internal:3128/'), {
    url: new URL('http://proxy.internal:3128'),
    authorization: `Basic ${Buffer.from('us@er:p:ss').toString('base64')}`
  })
  t.match(proxy('http://user@proxy.internal'), { authorization: `Basic ${Buffer.from('user:').toString('base64')}` })
  const { config } = load('proxy: "http://user:hunter@proxy.internal:3128"')
  t.notMatch(JSON.stringify(config!.redacted), /hunter|proxy\.internal/)
  t.end()
})

t.test('the environment names a proxy for what is not on this machine and not listed', (t) => {
  const env = { HTTPS_PROXY: 'http://secure:1', HTTP_PROXY: 'http://clear:2' }
  t.equal(through('https://one.example/v1', env), 'http://secure:1/')
  t.equal(through('http://one.example/v1', env), 'http://clear:2/')
  t.equal(through('https://one.example/v1', { ...env, https_proxy: 'http://small:3' }), 'http://small:3/')
  t.equal(through('https://one.example/v1', { ...env, https_proxy: '' }), undefined, 'empty in small letters is none')
  t.equal(through('http://one.example/v1', { HTTPS_PROXY: 'http://secure:1' }), undefined)
  t.match(channel('', { https_proxy: 'http://u:p@secure:1' }).proxy, { from: 'https_proxy', authorization: /^Basic / })
  for (const host of ['localhost', 'a.localhost', '127.0.0.1', '127.9.9.9', '[::1]'])
    t.equal(through(`https://${host}/v1`, env), undefined, host)
  t.equal(through('https://10.1.2.3/v1', env), 'http://secure:1/', 'what is private and elsewhere may need one')
  const rows: [list: string, listed: string[], other: string[]][] = [
    ['*', ['a.example', '10.0.0.1', '[2001:db8::1]'], []],
    ['one.example', ['one.example', 'a.one.example', 'ONE.example.'], ['anyone.example', 'one.example.org']],
    ['.one.example', ['one.example', 'a.b.one.example'], ['anyone.example']],
    ['*.one.example', ['a.one.example'], ['anyone.example']],
    ['x, two.example  three.example,', ['two.example', 'three.example'], ['one.example']],
    ['one.example:443', ['one.example', 'one.example:443'], ['one.example:8443']],
    ['one.example:8443', ['one.example:8443'], ['one.example']],
    ['10.0.0.1', ['10.0.0.1'], ['10.0.0.2', '110.0.0.1']],
    ['10.0.0.0/8', ['10.0.0.1', '10.255.0.1'], ['11.0.0.1', 'one.example', '[fd00::1]']],
    ['fd00::/8', ['[fd00::1]'], ['[fe00::1]', '10.0.0.1']],
    ['fd00::1', ['[fd00::1]'], ['[fd00::2]']],
    ['[fd00::1]:443', ['[fd00::1]'], ['[fd00::1]:8443']],
    ['10.0.0.0/99 10.0.0.0/ /8 : ,', [], ['10.0.0.1', 'one.example']]
  ]
  for (const [list, listed, other] of rows) {
    for (const host of listed)
      t.equal(through(`https://${host}/v1`, { ...env, NO_PROXY: list }), undefined, `${host} in ${list}`)
    for (const host of other)
      t.equal(through(`https://${host}/v1`, { ...env, NO_PROXY: list }), 'http://secure:1/', `${host} not in ${list}`)
  }
  t.equal(through('https://one.example/v1', { ...env, NO_PROXY: '*', no_proxy: 'two.example' }), 'http://secure:1/')
  t.end()
})

t.test('what cannot be has a place and a remedy, and shows no address of a proxy', (t) => {
  const own = 'our own cannot do what'
  const address =
    'must be an address like http://proxy.internal:3128, with user:password@ before the host if it wants them'
  t.same(says('http: 3'), [':7:11 channels.up.http: must be from 1 to 2, not 3'])
  t.same(says('transport: udnici'), [
    ':7:16 channels.up.transport: must be one of own, undici, not "udnici": did you mean "undici"?'
  ])
  t.same(says('{ http: 2, transport: own }'.slice(2, -2).replace(', ', '\n    ')), [
    `:8:16 channels.up.transport: ${own} "http: 2" asks for: remove this`
  ])
  t.same(says('transport: own\n    proxy: http://hunter:3128'), [
    `:7:16 channels.up.transport: ${own} "proxy" asks for: remove this, or say "proxy: none"`
  ])
  t.same(says('transport: own', { https_proxy: 'http://hunter:3128' }), [
    `:7:16 channels.up.transport: ${own} https_proxy in the environment asks for: remove this, or say "proxy: none"`
  ])
  for (const text of [
    'hunter:3128',
    'hunter',
    'http://',
    'ftp://hunter',
    'http://hunter/path',
    'http://hunter/?a',
    'http://hunter#a',
    ''
  ]) {
    t.same(says(`proxy: "${text}"`), [`:7:12 channels.up.proxy: ${address}, or none`], text)
  }
  t.same(says('proxy: socks5://hunter:1080'), [
    ':7:12 channels.up.proxy: SOCKS is not spoken: name an HTTP proxy, like http://proxy.internal:3128, or none'
  ])
  t.same(says('proxy: http://hun%ter:x@y'), [
    ':7:12 channels.up.proxy: user and password must be percent-encoded, or none'
  ])
  t.same(says('', { HTTPS_PROXY: 'hunter' }), [
    `:3:3 channels.up: HTTPS_PROXY in the environment: ${address}, or say "proxy: none"`
  ])
  t.same(says('proxy: http://hunter:1', {}, '', 'simulator'), [
    ':7:5 channels.up.proxy: a simulator is on this machine: remove this'
  ])
  t.same(says('http: 2', {}, '', 'simulator'), [
    ':7:11 channels.up.http: a simulator speaks HTTP/1.1 alone: remove this'
  ])
  t.same(says('reuse: false\n    http: 2'), [
    ':7:12 channels.up.reuse: HTTP/2 carries many requests on a connection: remove this, or "http: 2"'
  ])
  t.same(says('tls: {}', {}, '', 'simulator'), [
    ':7:5 channels.up.tls: a simulator is spoken to without TLS: remove this'
  ])
  t.end()
})
