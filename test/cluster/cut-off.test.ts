// A gateway that is cut off from PostgreSQL while it goes on with what others take over from it, and comes back.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { connect } from '../kit/client.ts'
import { brokenIn } from '../kit/cluster-money.ts'
import { DatabaseProxy } from '../kit/database-proxy.ts'
import { testKey } from '../kit/gateway.ts'
import { Installation, nodesMissing } from '../kit/nodes.ts'
import { sharedPostgres } from '../kit/postgres.ts'
import { eventually } from '../kit/probe.ts'

t.setTimeout(900_000)

const patience = 120_000
const kinds = ['shown', 'silent', 'picture'] as const
type Kind = (typeof kinds)[number]

/** An upstream that has what is asked of it wait until it is told to answer. */
async function upstream(t: Test): Promise<{ url: string; asked: Set<Kind>; say(): void; answer(kind: Kind): void }> {
  const waiting = new Map<Kind, ServerResponse>()
  const asked = new Set<Kind>()
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += String(chunk)
    const kind = kinds.find((one) => body.includes(one))!
    waiting.set(kind, response)
    asked.add(kind)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 }
  const choice = (more: object): object => ({
    id: 'c',
    created: 1,
    model: 'm',
    choices: [{ index: 0, finish_reason: 'stop', ...more }],
    usage
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked,
    say: () => {
      const response = waiting.get('shown')!
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (let word = 0; word < 5; word++) {
        const choices = [{ index: 0, delta: { role: 'assistant', content: `w${word}.` }, finish_reason: null }]
        response.write(`data: ${JSON.stringify({ id: 'c', created: 1, model: 'm', choices })}\n\n`)
      }
    },
    answer: (kind) => {
      const response = waiting.get(kind)!
      if (kind === 'shown') response.end(`data: ${JSON.stringify(choice({ delta: {} }))}\n\ndata: [DONE]\n\n`)
      else {
        const made =
          kind === 'picture'
            ? { created: 1, data: [{ b64_json: 'AAAA' }] }
            : choice({ message: { role: 'assistant', content: 'Made.' } })
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(made))
      }
    }
  }
}

t.test(
  'what others have ended of a gateway that was cut off is charged as far as its clients were shown it',
  { skip: nodesMissing },
  async (t) => {
    const { url, asked, say, answer } = await upstream(t)
    const all = await Installation.make(t, {
      channels: {
        demo: {
          protocol: 'openai',
          base_url: url,
          private: true,
          credential: 'secret',
          endpoints: ['chat', 'images'],
          models: { demo: 'm', images: 'm' },
          cost: { models: { demo: { input: 1, output: 1 } } }
        }
      },
      models: {
        demo: { price: { input: 1, output: 2 }, state: 'gateway' },
        images: { price: { image: 4 } }
      },
      state: { key: 'a secret of the operator that nobody else knows' }
    })
    const proxy = await DatabaseProxy.start(t, (await sharedPostgres()).socket)
    const [a, b] = [await all.node({}, proxy.url(all.database)), await all.node()]
    const watching = await connect(t, a.url)
    const respond = (input: Kind, stream: boolean): object => ({ model: 'demo', input, background: true, stream })
    watching.send({
      method: 'POST',
      path: '/v1/responses',
      headers: { authorization: `Bearer ${testKey}` },
      body: respond('shown', true)
    })
    const silent = (await a.ask({ path: '/v1/responses', body: respond('silent', false) })).json().id
    const picture = (
      await a.ask({ path: '/v1/images/generations/async', body: { model: 'images', prompt: 'picture' } })
    ).json().id
    await eventually(() => asked.size === 3, patience)
    await eventually(async () => (await all.sql('select 1 from sluice.hold where channel is not null')).length === 3)

    proxy.stand()
    say()
    await watching.body('w4.')
    t.pass('its client is shown what it says')
    await eventually(async () => (await all.sql('select 1 from sluice.hold')).length === 0, patience)
    const others = await all.sql(`select kind, amount from sluice.journal where class = 'terminal'`)
    t.same(others, Array(3).fill({ kind: 'void', amount: '0' }), 'as far as others know nobody was shown anything')
    proxy.goOn()
    for (const kind of kinds) answer(kind)

    await eventually(
      async () => (await all.sql(`select 1 from sluice.journal where class = 'adjust:late'`)).length > 0,
      patience
    )
    await eventually(async () => (await a.admin('/admin/v1/requests')).data.length === 3, patience)
    // What this gateway has under way is over when it has closed.
    await a.gateway.close({ drain: true })
    const shownId = /"id":"(resp_[0-9a-f]+)"/.exec(
      Buffer.concat(watching.reads.map(({ bytes }) => bytes)).toString()
    )![1]!
    for (const path of [
      `/v1/responses/${shownId}`,
      `/v1/responses/${silent}`,
      `/v1/images/generations/async/${picture}`
    ])
      t.equal((await b.ask({ method: 'GET', path })).json().status, 'failed', path)
    t.same(
      await all.sql(
        `select kind, amount, channel, source, (select sum(cost) from sluice.journal c where c.request_id = j.request_id)
          as cost from sluice.journal j where class not in ('terminal', 'cost:0')`
      ),
      [{ kind: 'adjust', amount: '25000', channel: 'demo', source: 'upstream', cost: '18000' }],
      'what was shown is charged, and nothing else'
    )
    const { data } = await b.admin('/admin/v1/requests?outcome=failed')
    t.same(data.map(({ cost_nano }: { cost_nano: string }) => cost_nano).sort(), ['0', '0', '25000'])
    await b.gateway.close()
    t.same(await brokenIn(all.database), [])
  }
)
