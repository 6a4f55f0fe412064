// A gateway of two workers as an operator has it: the program with a file, whose plugins end their thread in every way,
// and whose certificate is renewed.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import { verify } from '../../../core/store/embedded/care/verify/verify.ts'
import { makeCertificate } from '../../kit/certificate.ts'
import { spawnGateway } from '../../kit/gateway.ts'
import type { Overrides } from '../../kit/gateway.ts'
import { eventually } from '../../kit/probe.ts'
import { folder } from '../../money/rig.ts'

t.setTimeout(600_000)

const contract = JSON.stringify(join(import.meta.dirname, '../../../core/contract/contract.ts'))
const bomb = `import { definePlugin } from ${contract}
const ways = {
  exit: () => process.exit(7),
  rejection: () => void Promise.reject(new Error('nobody caught this')),
  memory() {
    for (const all = []; ; ) all.push(new Array(10_000).fill(Math.random()))
  }
}
export default definePlugin({ name: 'bomb', summary: 'Ends the worker.', options: {}, setup: () => ({
  onRequest: ({ request: { headers } }) => ways[headers['x-bomb']]?.()
}) })`

function chainWith(...plugins: readonly object[]): Overrides {
  const names = ['auth', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']
  return { chain: [...plugins, ...names.map((name) => ({ [name]: {} }))] }
}

t.test('a worker that its plugin ends, or gives no memory, ends alone, and another one serves', async (t) => {
  const home = folder(t)
  mkdirSync(join(home, 'plugins'))
  writeFileSync(join(home, 'plugins/bomb.mjs'), bomb)
  const requests = join(home, 'requests.log')
  const store = join(home, 'sluice.db')
  const { chain, ...more } = chainWith({ bomb: {} }, { log: { sink: requests } })
  const all = await spawnGateway(
    t,
    { workers: 2, store: { sqlite: store }, plugins: { bomb: join(home, 'plugins/bomb.mjs') }, chain, ...more },
    { env: { NODE_OPTIONS: '--max-old-space-size=100' } }
  )
  const places = async (): Promise<any[]> => (await all.admin('/admin/v1/workers')).data
  let ended = 0
  let answered = 0
  for (const [how, why] of [
    ['exit', /exit code 7/],
    ['memory', /ERR_WORKER_OUT_OF_MEMORY/],
    ['rejection', /nobody caught this/],
    ['memory', /ERR_WORKER_OUT_OF_MEMORY/]
  ] as const) {
    // Who asked may have been answered before.
    await all.ask({ path: '/v1/models', headers: { 'x-bomb': how } }).catch(() => {})
    ended++
    let last: any[] = []
    await eventually(async () => {
      t.equal((await all.chat()).status, 200, `${how}: the other one serves`)
      answered++
      last = await places()
      return last.every(({ state }) => state === 'serves') && last.reduce((sum, { ends }) => sum + ends, 0) === ended
    })
    const ends = last.map(({ last_end: end }) => end).filter((end) => end !== null)
    t.match(ends.sort((one, other) => (one.time < other.time ? 1 : -1))[0].reason, why)
  }
  t.match(await all.admin('/readyz'), { status: 'ok' })
  const { pid } = all.process
  t.same(all.pids(), [pid], 'it is the same process')
  all.process.kill('SIGTERM')
  t.same(await all.exited, { code: 0, signal: null })
  t.same(verify(store), [])
  // A worker that crashes loses the lines of a tenth of a second, and breaks none.
  const lines = readFileSync(requests, 'utf8').trimEnd().split('\n')
  const statuses = lines.map((line) => (JSON.parse(line) as { status: number }).status)
  t.ok(statuses.filter((status) => status === 200).length > answered / 2)
})

t.test('each worker shows the certificate that is renewed', async (t) => {
  const home = folder(t)
  const [cert, key] = [join(home, 'cert.pem'), join(home, 'key.pem')]
  const put = (): string => {
    const made = makeCertificate(t)
    copyFileSync(made.key, key)
    copyFileSync(made.cert, cert)
    return made.ca
  }
  let current = put()
  const all = await spawnGateway(t, { workers: 2, listen: { tls: { cert, key } } })
  const { port } = new URL(all.url)
  const shown = (): Promise<boolean> =>
    new Promise((resolve, reject) => {
      const socket = connectTls({ port: Number(port), host: '127.0.0.1', ca: current, servername: 'localhost' })
      socket.on('secureConnect', () => (socket.destroy(), resolve(true)))
      socket.on('error', (error: NodeJS.ErrnoException) =>
        error.code === 'DEPTH_ZERO_SELF_SIGNED_CERT' ? resolve(false) : reject(error)
      )
    })
  const ofTwelve = async (): Promise<boolean> =>
    (await Promise.all(Array.from({ length: 12 }, () => shown()))).every(Boolean)
  t.ok(await ofTwelve())
  current = put()
  await eventually(ofTwelve)
  all.process.kill('SIGTERM')
  t.same(await all.exited, { code: 0, signal: null })
})
