// Answers of the admin listener that come in pieces: how they end, on real sockets.
import { once } from 'node:events'
import { createServer, get } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import type { Flow } from '../../../core/admin/api/contract.ts'
import { Flows } from '../../../core/admin/flows.ts'
import { eventually } from '../../kit/probe.ts'

interface Poured {
  reply: IncomingMessage
  flows: Flows
  /** What {@link Flows.run} came to. */
  outcome: Promise<unknown>
}

/** Serves a flow to one request, whose head has come. */
async function pour(t: Test, flow: Flow): Promise<Poured> {
  const flows = new Flows()
  const ran = Promise.withResolvers<unknown>()
  const server = createServer((_, response) => {
    response.writeHead(200).flushHeaders()
    flows.run(response, flow).then(() => ran.resolve('ended'), ran.resolve)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const request = get({ port: (server.address() as AddressInfo).port, agent: false })
  // Whoever reads the answer sees a connection that breaks.
  request.on('error', () => {})
  const [reply] = (await once(request, 'response')) as [IncomingMessage]
  return { reply, flows, outcome: ran.promise }
}

async function textOf(reply: IncomingMessage): Promise<string> {
  const pieces: string[] = []
  for await (const piece of reply) pieces.push(String(piece))
  return pieces.join('')
}

t.test('a flow that is done ends its answer', async (t) => {
  const { reply, outcome } = await pour(t, async (to) => {
    to.write('one,')
    await new Promise((resolve) => setImmediate(resolve))
    to.write('two')
  })
  t.equal(await textOf(reply), 'one,two')
  t.equal(await outcome, 'ended')
})

t.test('a flow that fails breaks its answer, so that nobody takes it for whole', async (t) => {
  const read = Promise.withResolvers<void>()
  const { reply, outcome } = await pour(t, async (to) => {
    to.write('half')
    await read.promise
    throw new Error('the source failed')
  })
  const text = textOf(reply)
  read.resolve()
  await t.rejects(text, { code: 'ECONNRESET' })
  t.match(await outcome, { message: 'the source failed' })
})

t.test('a client that leaves ends its flow', async (t) => {
  let why: unknown
  const { reply, outcome } = await pour(t, async (to, ended) => {
    to.write('begun')
    await once(ended, 'abort')
    why = ended.reason
  })
  reply.destroy()
  t.equal(await outcome, 'ended')
  t.equal(why, 'gone')
})

t.test('a flow has its last word when the listener ends', async (t) => {
  let begun = false
  const { reply, flows, outcome } = await pour(t, async (to, ended) => {
    begun = true
    await once(ended, 'abort')
    to.write(`last word: ${ended.reason}`)
  })
  await eventually(() => begun)
  await flows.end('stopping')
  t.equal(await textOf(reply), 'last word: stopping')
  t.equal(await outcome, 'ended')
})

t.test('a flow that does not listen holds nobody up', async (t) => {
  let release = (): void => {}
  const { flows } = await pour(t, () => new Promise((resolve) => (release = resolve)))
  await flows.end('stopping')
  t.pass('the end was not waited for')
  release()
})
