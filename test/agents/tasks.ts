// Command-line agents as their vendors ship them: each writes a file with its tool, by way of every channel, and calls
// nobody but the gateway. `npm run test:agents`.
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { simulated, startAll } from '../e2e/clients/script.ts'
import { claudeOnBedrock } from '../kit/claude-platforms.ts'
import { testKey } from '../kit/gateway.ts'
import { agents } from './agents.ts'
import type { Agent } from './agents.ts'

t.setTimeout(1_200_000)

/** A proxy that lets nobody through, and keeps where they wanted to go. */
async function trap(t: Test): Promise<{ url: string; wanted: string[] }> {
  const wanted: string[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (bytes) => {
      wanted.push(bytes.toString('latin1').split('\r\n', 1)[0]!)
      socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, wanted }
}

/** Runs an agent in a home of its own; `directive` is what the simulator does. */
async function run(
  t: Test,
  agent: Agent,
  address: { url: string; key: string; model: string },
  proxy: string,
  directive: object = agent.call('echo hello > out.txt')
): Promise<{ code: unknown; output: string; written: string | undefined }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-agent-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  const [home, work] = [join(folder, 'home'), join(folder, 'work')]
  mkdirSync(home)
  mkdirSync(work)
  const [file, text] = agent.settings?.(address) ?? ['.settings', '']
  mkdirSync(dirname(join(home, file)), { recursive: true })
  writeFileSync(join(home, file), text)
  const env = {
    PATH: process.env['PATH'],
    HOME: home,
    HTTPS_PROXY: proxy,
    HTTP_PROXY: proxy,
    NO_PROXY: '127.0.0.1',
    ...agent.env(address)
  }
  const prompt = `Write. [[simulator ${JSON.stringify(directive)}]]`
  const { code, output } = await new Promise<{ code: unknown; output: string }>((resolve) => {
    const child = execFile(
      agent.program,
      agent.args(prompt, address.model),
      { cwd: work, env, encoding: 'utf8', timeout: 120_000 },
      (error, stdout, stderr) => {
        resolve({ code: error ? (error.code ?? error.signal) : 0, output: `${stdout}\n${stderr}` })
      }
    )
    child.stdin!.end()
  })
  let written: string | undefined
  try {
    written = readFileSync(join(work, 'out.txt'), 'utf8')
  } catch {
    // It wrote none, which the test will say.
  }
  return { code, output, written }
}

for (const agent of agents) {
  t.test(
    `${agent.name} finishes a task that takes its tool, by way of every channel`,
    { timeout: 600_000 },
    async (t) => {
      const local = await startAll(t, { invoked: await claudeOnBedrock(t) })
      const { url: proxy, wanted } = await trap(t)
      for (const channel of [...Object.keys(simulated), 'vertex', 'invoked']) {
        const { code, output, written } = await run(
          t,
          agent,
          { url: local.url, key: testKey, model: `via-${channel}` },
          proxy
        )
        t.same([code, written], [0, 'hello\n'], channel, { output })
        t.match(output, /The tool answered/, channel)
        const { data } = (await local.admin('/admin/v1/requests?limit=10')) as { data: Record<string, any>[] }
        // The simulator refuses what an agent asks beside its task, such as for a title, as the tool is not offered
        // there.
        const own = data.filter(({ model, status }) => model === `via-${channel}` && status === 200)
        t.ok(own.length >= 2, channel)
        t.match(
          own,
          own.map(() => ({ client_protocol: agent.protocol, channel, outcome: 'completed', usage_source: 'upstream' })),
          channel
        )
      }
      t.same(
        wanted.filter((line) => !agent.wants?.test(line)),
        [],
        'it calls nobody else'
      )
    }
  )
}

t.test('gemini-cli does not end well when its answer breaks off', { timeout: 600_000 }, async (t) => {
  const local = await startAll(t)
  const { url: proxy } = await trap(t)
  const agent = agents.find(({ name }) => name === 'gemini-cli')!
  for (const channel of Object.keys(simulated)) {
    const address = { url: local.url, key: testKey, model: `via-${channel}` }
    const { code, output } = await run(t, agent, address, proxy, { tokens: 80, cut: 'reset', after_events: 20 })
    t.equal(code, 1, channel, { output })
    const { data } = (await local.admin('/admin/v1/requests?limit=1')) as { data: object[] }
    t.match(data, [{ channel, status: 200, error_code: 'upstream_stream_interrupted' }], channel)
  }
})
