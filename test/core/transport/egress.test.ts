// Which addresses a channel may reach without being declared private.
import fc from 'fast-check'
import t from 'tap'
import { isPublic } from '../../../core/transport/connecting/egress.ts'

t.test('addresses of the public internet are public', (t) => {
  const rows = [
    '1.1.1.1',
    '8.8.8.8',
    '11.0.0.1',
    '100.63.255.255',
    '100.128.0.1',
    '126.255.255.255',
    '128.0.0.1',
    '169.253.0.1',
    '172.15.0.1',
    '172.32.0.1',
    '192.167.0.1',
    '198.17.0.1',
    '198.20.0.1',
    '223.255.255.255',
    '2001:4860:4860::8888',
    '2606:4700::1111',
    '2a00::1'
  ]
  for (const address of rows) t.ok(isPublic(address), address)
  t.end()
})

t.test('everything that leads inside, nowhere or to many is not', (t) => {
  const rows = [
    '0.0.0.0',
    '10.0.0.1',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.255',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.8',
    '192.0.2.1',
    '192.168.1.1',
    '198.18.0.1',
    '198.19.255.255',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    'fc00::1',
    'fdff::1',
    'fe80::1',
    'fec0::1',
    'ff02::1',
    '2001:db8::1',
    '2001::1',
    '3fff::1',
    '100::1',
    '5f00::1'
  ]
  for (const address of rows) t.notOk(isPublic(address), address)
  t.end()
})

t.test('no form of IPv6 that carries an IPv4 address reaches it', (t) => {
  const octet = fc.integer({ min: 0, max: 255 })
  fc.assert(
    fc.property(octet, octet, octet, octet, (a, b, c, d) => {
      const dotted = `${a}.${b}.${c}.${d}`
      const groups = `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
      const forms = [
        `::ffff:${dotted}`,
        `::${groups}`,
        `2002:${groups}::1`,
        `64:ff9b::${groups}`,
        `64:ff9b:1::${groups}`,
        `2001:0:${groups}::`
      ]
      return forms.every((address) => !isPublic(address))
    })
  )
  t.end()
})

t.test('what is no plain address is not public', (t) => {
  for (const address of [
    '',
    'localhost',
    'example.com',
    '1.1.1',
    '2130706433',
    '0x7f.1',
    '[2a00::1]',
    '2a00::1%eth0',
    ' 1.1.1.1'
  ]) {
    t.notOk(isPublic(address), JSON.stringify(address))
  }
  t.end()
})
