// Bodies that come encoded, from clients and from upstreams: which encodings are known, and what becomes of others.
import t from 'tap'
import { gateway } from '../kit/gateway.ts'
import { bytes, head, Upstream } from '../kit/upstream.ts'

const unknown = ['constructor', '__proto__', 'toString', 'hasOwnProperty', 'compress', 'gzip, gzip', 'identity, gzip']

t.test('an encoding that is not known is refused by its name, whatever the name is', async (t) => {
  const upstream = await Upstream.start(t)
  const { ask, chat, lines } = await gateway(t, {}, { upstreams: { upstream } })
  for (const encoding of unknown) {
    for (const stream of [false, true]) {
      upstream.script(head(200, { 'content-type': 'application/json', 'content-encoding': encoding, 'content-length': '2' }), bytes('{}'))
      const reply = await chat({ stream })
      t.match([reply.status, reply.json().error.code], [502, 'upstream_bad_response'], `an answer in ${encoding}`)
    }
    const reply = await ask({ path: '/v1/chat/completions', headers: { 'content-encoding': encoding }, body: '{}' })
    t.match([reply.status, reply.json().error.code], [415, 'unsupported_media_type'], `a request in ${encoding}`)
  }
  t.strictSame(lines.filter(({ level }) => level === 'error'), [])
})
