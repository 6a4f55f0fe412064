// What is left to be sent of a request that was given up, on a connection that others go on with, is never another
// request's.
import { once } from 'node:events'
import { createServer as createHttp2Server } from 'node:http2'
import type { Http2Server } from 'node:http2'
import { createServer, connect as dial } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { connect } from '../kit/client.ts'
import type { RequestParts } from '../kit/client.ts'
import { formOf } from '../kit/form.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import { eventually, figures } from '../kit/probe.ts'
import { Upstream } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

t.setTimeout(600_000)

async function listen(server: Server | Http2Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/**
 * An upstream that speaks HTTP/2 in clear text, takes any amount of a request, and stops reading until it is told to go
 * on.
 */
async function reluctant(
  t: Test
): Promise<{ url: string; goOn(): void; readonly bytes: Buffer; over: Promise<unknown> }> {
  const server = createHttp2Server({ settings: { initialWindowSize: 2 ** 30 } })
  server.on('session', (session) => session.setLocalWindowSize(2 ** 30))
  const over = new Promise((resolve) => {
    server.on('stream', (stream) =>
      stream
        .on('error', () => {})
        .on('close', resolve)
        .resume()
    )
  })
  const port = await listen(server)
  const sockets: Socket[] = []
  const read: Buffer[] = []
  let stopped = true
  const front = createServer((socket) => {
    const behind = dial(port, '127.0.0.1').on('error', () => {})
    sockets.push(
      socket.on('error', () => {}),
      behind
    )
    socket.on('data', (bytes) => {
      read.push(bytes)
      behind.write(bytes)
      if (stopped) socket.pause()
    })
    behind.on('data', (bytes) => socket.write(bytes))
  })
  const url = `http://127.0.0.1:${await listen(front)}/v1`
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    front.close()
    server.close()
  })
  const goOn = (): void => {
    stopped = false
    for (const socket of sockets) socket.resume()
  }
  return {
    url,
    goOn,
    over,
    get bytes() {
      return Buffer.concat(read)
    }
  }
}

/** More than the kernel keeps for an upstream that does not read. */
const large = 7_500_000
const kinds: Record<string, { answer: object; request(model: string, mark: string): RequestParts }> = {
  JSON: {
    answer: chatAnswer(),
    request: (model, mark) => ({
      path: '/v1/chat/completions',
      body: JSON.stringify({ model, messages: [{ role: 'user', content: mark.repeat(large / mark.length) }] })
    })
  },
  'a form': {
    answer: { text: 'x', usage: { type: 'duration', seconds: 1 } },
    request(model, mark) {
      const { body, type } = formOf([
        { name: 'model', value: model },
        { name: 'file', filename: 'f', value: Buffer.alloc(large, mark) }
      ])
      return { path: '/v1/audio/transcriptions', headers: { 'content-type': type }, body }
    }
  }
}

for (const [kind, { answer, request }] of Object.entries(kinds)) {
  t.test(`${kind} over HTTP/2`, async (t) => {
    const slow = await reluctant(t)
    const other = await Upstream.start(t)
    const channel = (base_url: string, model: string, more: object = {}): object => ({
      protocol: 'openai',
      base_url,
      private: true,
      models: { [model]: model },
      endpoints: ['chat', 'audio'],
      ...more
    })
    const running = await gateway(t, {
      channels: {
        demo: undefined,
        slow: channel(slow.url, 'slow', { http: 2 }),
        other: channel(other.url.href, 'other')
      },
      models: { demo: undefined, slow: { price: 'free' }, other: { price: 'free' } }
    })
    const first = await connect(t, running.url)
    const asked = request('slow', 'first...')
    first.send({ method: 'POST', ...asked, headers: { authorization: `Bearer ${testKey}`, ...asked.headers } })
    // Until as much is on its way as may be, the socket being full.
    await eventually(
      async () => (await figures(t, running)).get('sluice_exchanges_running') === 1 && slow.bytes.length > 0
    )
    await new Promise((resolve) => setTimeout(resolve, 500))
    first.reset()
    await eventually(async () => (await figures(t, running)).get('sluice_exchanges_running') === 0)
    for (let times = 0; times < 3; times++) {
      other.json(answer)
      t.equal((await running.ask({ method: 'POST', ...request('other', 'another!') })).status, 200)
    }
    const before = slow.bytes.length
    slow.goOn()
    await slow.over
    t.ok(slow.bytes.length > before + 100_000)
    t.notOk(slow.bytes.includes('another!'))
  })
}
