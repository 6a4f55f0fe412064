// Certificates and keys that gateway.yaml names: what is taken of their files, and what is said of those that cannot be
// used.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Files } from '../../config/files/files.ts'
import { loadConfig } from '../../config/load.ts'
import type { Loaded } from '../../config/load.ts'
import { makeCertificate } from '../kit/certificate.ts'
import { plugins } from './plugins.ts'

const folder = t.testdir()
const file = join(folder, 'gateway.yaml')
const at = (name: string): string => join(folder, name)
const least = `
channels: { demo: { protocol: simulator, models: { demo: upstream-demo } } }
models: { demo: { price: free } }
chain: [auth]
`

const [own, other] = [makeCertificate(t), makeCertificate(t)]
copyFileSync(own.cert, at('cert.pem'))
copyFileSync(own.key, at('key.pem'))
copyFileSync(other.key, at('other-key.pem'))
writeFileSync(at('chain.pem'), `${own.pem.cert}\n${other.pem.cert}`)
writeFileSync(at('nonsense.pem'), 'nothing of use\n')
writeFileSync(at('damaged.pem'), own.pem.cert.replace(/\n[A-Za-z0-9+/]{8}/, '\nAAAAAAAA'))
writeFileSync(at('large.pem'), Buffer.alloc(1024 * 1024 + 1, 'x'))
mkdirSync(at('folder.pem'))
execFileSync('openssl', ['pkey', '-in', at('key.pem'), '-aes256', '-passout', 'pass:hunter', '-out', at('locked.pem')])

function load(text: string, files?: Files): Loaded {
  writeFileSync(file, text)
  return loadConfig(file, { env: {}, plugins, simulatorUrl: new URL('http://127.0.0.1:41234/v1') }, files)
}

/** Problems of a listener with these two files, each without the file's name. */
function listening(cert: string, key: string): string[] {
  const { problems = [] } = load(`listen:\n  tls:\n    cert: ${cert}\n    key: ${key}\n${least}`)
  return problems.map(({ place, message }) => `${place.replace(file, '')} ${message.replaceAll(`${folder}/`, '')}`)
}

t.test('a certificate and its key are taken from beside the file, or from where their paths lead', (t) => {
  for (const [cert, key] of [
    ['cert.pem', 'key.pem'],
    ['./chain.pem', 'key.pem'],
    [own.cert, own.key]
  ] as const) {
    const { config } = load(`listen: { tls: { cert: ${cert}, key: ${key} } }${least}`)
    t.same(config?.settings.listen.tls, {
      cert: readFileSync(join(cert.startsWith('/') ? '/' : folder, cert), 'utf8'),
      key: own.pem.key
    })
    t.notMatch(JSON.stringify(config?.redacted), /BEGIN/)
  }
  t.end()
})

t.test('what cannot be used is said where it is named', (t) => {
  t.same(listening('gone.pem', 'key.pem'), [':3:11 listen.tls.cert: gone.pem: there is no such file'])
  t.same(listening('gone.pem', 'folder.pem'), [
    ':3:11 listen.tls.cert: gone.pem: there is no such file',
    ':4:10 listen.tls.key: folder.pem: is not a file'
  ])
  t.same(listening('large.pem', 'key.pem'), [':3:11 listen.tls.cert: large.pem: is larger than 1 MiB'])
  t.same(listening('key.pem', 'cert.pem'), [
    ':3:11 listen.tls.cert: key.pem holds no certificate in PEM (-----BEGIN CERTIFICATE-----)',
    ':4:10 listen.tls.key: cert.pem holds no private key in PEM'
  ])
  t.same(listening('nonsense.pem', 'nonsense.pem'), [
    ':3:11 listen.tls.cert: nonsense.pem holds no certificate in PEM (-----BEGIN CERTIFICATE-----)',
    ':4:10 listen.tls.key: nonsense.pem holds no private key in PEM'
  ])
  t.same(listening('damaged.pem', 'key.pem'), [
    ':3:11 listen.tls.cert: damaged.pem holds a certificate that is damaged'
  ])
  t.same(listening('cert.pem', 'other-key.pem'), [
    ':4:10 listen.tls.key: other-key.pem is the key of another certificate than the first of cert.pem'
  ])
  t.same(listening('cert.pem', 'locked.pem'), [
    ':4:10 listen.tls.key: locked.pem is locked with a passphrase, which cannot be given: unlock it (openssl pkey)'
  ])
  t.end()
})

t.test(
  'a file that may not be read is said to be one',
  { skip: process.getuid?.() === 0 && 'root may read everything' },
  (t) => {
    copyFileSync(own.key, at('closed.pem'))
    chmodSync(at('closed.pem'), 0)
    t.same(listening('cert.pem', 'closed.pem'), [':4:10 listen.tls.key: closed.pem: this user may not read the file'])
    t.end()
  }
)

/** A channel with this under `tls:`. */
const channel = (tls: string, address = 'base_url: https://one.example/v1'): string => `
channels:
  up:
    protocol: openai
    ${address}
    models: { demo: x }
    tls: ${tls}
models: { demo: { price: free } }
chain: [auth]
`

t.test('what a channel says of TLS is taken with what is in its files', (t) => {
  const of = (tls: string): unknown => load(channel(tls)).config?.channels.get('up')!.tls
  t.same(of('{ ca: chain.pem, cert: cert.pem, key: key.pem, server_name: in.example, verify: true }'), {
    ca: readFileSync(at('chain.pem'), 'latin1'),
    identity: own.pem,
    serverName: 'in.example',
    verify: true
  })
  t.same(of('{ verify: false }'), { ca: undefined, identity: undefined, serverName: undefined, verify: false })
  t.equal(of(''), undefined)
  t.end()
})

t.test('what a channel says of TLS and cannot mean has a place and a remedy', (t) => {
  const says = (tls: string, address?: string): string[] =>
    (load(channel(tls, address)).problems ?? []).map(
      ({ place, message }) => `${place.replace(file, '')} ${message.replaceAll(`${folder}/`, '')}`
    )
  t.same(says('{ ca: nonsense.pem }'), [
    ':7:16 channels.up.tls.ca: nonsense.pem holds no certificate in PEM (-----BEGIN CERTIFICATE-----)'
  ])
  t.same(says('{ cert: cert.pem }'), [':7:12 channels.up.tls.cert: its private key is missing: name it in "key"'])
  t.same(says('{ key: key.pem }'), [':7:12 channels.up.tls.key: there is no "cert" that it could be the key of'])
  t.same(says('{ cert: cert.pem, key: other-key.pem }'), [
    ':7:33 channels.up.tls.key: other-key.pem is the key of another certificate than the first of cert.pem'
  ])
  t.same(says('{ server_name: 10.0.0.1 }'), [':7:25 channels.up.tls.server_name: must be a name, not an address'])
  t.same(says('{ server_name: "a b" }'), [':7:25 channels.up.tls.server_name: must be a host name, not "a b"'])
  t.same(says('{ ca: cert.pem, verify: false }'), [
    ':7:12 channels.up.tls.ca: nothing is looked for in it with "verify: false": keep one of the two'
  ])
  t.same(says('{ ca: cert.pem }', 'base_url: http://one.example/v1'), [
    ':7:5 channels.up.tls: there is no TLS with an http:// address: remove this, or write https:// in "base_url"'
  ])
  t.same(says('{ certs: cert.pem }'), [':7:12 channels.up.tls.certs: unknown key, did you mean "cert"?'])
  t.end()
})

t.test('every file that was read is known with its content, also one that is not there', (t) => {
  const files = new Files()
  load(`listen: { tls: { cert: cert.pem, key: gone.pem } }${least}`, files)
  const hash = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex')
  t.same(
    [...files.hashes],
    [
      [file, hash(file)],
      [at('cert.pem'), hash(at('cert.pem'))],
      [at('gone.pem'), '']
    ]
  )
  t.end()
})
