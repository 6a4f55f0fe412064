// A connection that the upstream gives up in the moment of its reuse costs no request, and no request is made twice
// otherwise.
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { connect } from '../kit/client.ts'
import { gateway, spawnGateway, testKey, testModel } from '../kit/gateway.ts'
import { bytes, head, pause, Upstream } from '../kit/upstream.ts'
import type { Step } from '../kit/upstream.ts'
import { chatAnswer } from '../kit/workbench.ts'

const whole = JSON.stringify(chatAnswer())
const answer = [head(200, { 'content-type': 'application/json', 'content-length': String(whole.length) }), bytes(whole)]
const drop: Step = ({ socket }) => void socket.resetAndDestroy()

t.test('a reused connection that breaks before any answer is tried again on a new one', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(t, {}, { upstreams: { up: upstream } })
  for (let n = 0; n < 10; n++) {
    upstream
      .script(...answer)
      .scriptFromHead(drop)
      .script(...answer)
    t.equal((await running.chat()).status, 200)
    const reply = await running.chat()
    t.equal(reply.status, 200)
    t.match((await running.record(reply)).attempts, { length: 1 })
  }
})

t.test('a new connection that breaks, one that breaks twice and one that breaks late are failures', async (t) => {
  const upstream = await Upstream.start(t)
  const running = await gateway(
    t,
    {
      chain: [
        { auth: {} },
        { quota: {} },
        { route: { repeats: 0, eject_after: 1000 } },
        { 'usage-meter': {} },
        { log: { sink: 'none' } }
      ]
    },
    { upstreams: { up: upstream } }
  )
  upstream.script(drop)
  t.equal((await running.chat()).status, 502, 'a new connection')
  t.equal(upstream.requests.length, 1)
  upstream
    .script(...answer)
    .script(drop)
    .script(drop)
  t.equal((await running.chat()).status, 200)
  t.equal((await running.chat()).status, 502, 'twice')
  t.equal(upstream.requests.length, 4)
  upstream.script(...answer).script(pause(700), drop)
  t.equal((await running.chat()).status, 200)
  t.equal((await running.chat()).status, 502, 'late: the upstream may have done the work')
  t.equal(upstream.requests.length, 6)
})

t.test("an answer that came while the process was stopped is nobody's", async (t) => {
  const upstream = await Upstream.start(t)
  const sockets = new Set<Socket>()
  upstream.always(({ socket }) => void sockets.add(socket), ...answer)
  const running = await spawnGateway(t, {}, { upstreams: { up: upstream } })
  const stray = whole.replace('Hello', 'of somebody else')
  const body = JSON.stringify({ model: testModel, messages: [] })
  const request = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${testKey}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  for (let round = 0; round < 20; round++) {
    t.equal((await running.chat()).status, 200)
    const client = await connect(t, running.url)
    await client.write(request).reply()
    running.process.kill('SIGSTOP')
    client.write(request)
    await sleep(5)
    for (const socket of sockets)
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${stray.length}\r\n\r\n${stray}`
      )
    await sleep(5)
    running.process.kill('SIGCONT')
    const reply = await client.reply(1)
    t.equal(reply.status, 200)
    t.notMatch(reply.text, 'of somebody else')
    client.close()
  }
})
