// Everything that /metrics prints keeps the rules of Prometheus, and is in docs/METRICS.md.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import { lacks, runProgram } from '../kit/programs.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/METRICS.md'), 'utf8')

/** One metric as the page declares it. */
interface Family {
  name: string
  type: string
  help: string
  labels: ReadonlySet<string>
}

/** The page of a gateway with every plugin in its chain, after a request. */
async function exposition(t: Test, workers = 1): Promise<string> {
  const {
    chat,
    ask: send,
    adminUrl
  } = await gateway(
    t,
    {
      telemetry: { otlp: 'http://127.0.0.1:1', signals: ['traces'], timeout: '100ms' },
      chain: ['auth', 'idempotency', 'quota', 'ratelimit', 'route', 'protocol-translate', 'usage-meter']
        .map((name): unknown => ({ [name]: {} }))
        .concat({ log: { sink: 'none', tenant_label: 10 } })
    },
    { workers }
  )
  t.equal((await chat()).status, 200)
  t.equal((await send({ path: '/v1/nothing', body: {} })).status, 404)
  return (await ask(t, adminUrl, { path: '/metrics' })).text
}

function families(text: string): Family[] {
  return text
    .split(/^(?=# HELP )/m)
    .filter((part) => part.startsWith('# HELP '))
    .map((part) => {
      const [help = '', type = '', ...samples] = part.split('\n')
      const [, name = '', words = ''] = /^# HELP (\S+) ?(.*)$/.exec(help) ?? []
      const labels = samples.flatMap((sample) => Array.from(sample.matchAll(/[{,](\w+)="/g), ([, label]) => label!))
      return { name, help: words, type: type.replace(`# TYPE ${name} `, ''), labels: new Set(labels) }
    })
}

/** What Prometheus' page on naming asks for, as far as a name and its type can show it. */
function faultsOf({ name, type, help, labels }: Family): string[] {
  const faults: string[] = []
  const fault = (wrong: boolean, text: string): void => void (wrong && faults.push(`${name}: ${text}`))
  fault(!/^(sluice|process|nodejs)_[a-z][a-z0-9]*(_[a-z0-9]+)*$/.test(name), 'the name is not in snake case')
  fault(!['counter', 'gauge', 'histogram', 'summary'].includes(type), `has the type "${type}"`)
  fault((type === 'counter') !== name.endsWith('_total'), 'counters, and they alone, end in _total')
  fault(/_(counter|gauge|histogram|summary)(_|$)/.test(name), 'has a type in its name')
  fault(/_(count|sum|bucket)$/.test(name), 'ends like a series of a histogram')
  fault(
    /_(ms|milliseconds|us|ns|nano|minutes|hours|kb|kib|mb|mib|kilobytes|percent)(_|$)/.test(name),
    'has no base unit'
  )
  fault(type === 'histogram' && !/_(seconds|bytes|ratio)$/.test(name), 'a histogram does not end in its unit')
  fault(!/^[A-Z0-9].*\.$/.test(help), `its help is no sentence: "${help}"`)
  for (const label of labels) {
    fault(!/^[a-z][a-z0-9_]*$/.test(label), `the label ${label} is not in snake case`)
    fault(
      ['job', 'instance', 'le_', 'quantile_', '__name__'].includes(label),
      `the label ${label} belongs to Prometheus`
    )
  }
  return faults
}

t.test('promtool finds nothing to say about the page', { skip: lacks('promtool') }, async (t) => {
  t.same(await runProgram('promtool', ['check', 'metrics'], await exposition(t)), { code: 0, output: '' })
  const bad = await runProgram('promtool', ['check', 'metrics'], '# TYPE bad_total gauge\nbad_total 1\n')
  t.equal(bad.code, 3, 'which it does about a bad one')
})

t.test('every metric has a name, a type, labels and words as the rules demand', async (t) => {
  const found = families(await exposition(t))
  t.ok(found.length > 60, `${found.length} metrics`)
  t.same(found.flatMap(faultsOf), [])
  t.equal(new Set(found.map(({ name }) => name)).size, found.length, 'and each stands there once')
  const wrong = { name: 'sluice_wait_ms_total', type: 'gauge', help: 'waiting', labels: new Set(['wait', 'job']) }
  t.equal(faultsOf(wrong).length, 4, 'the rules are applied')
})

t.test('docs/METRICS.md names every metric of the gateway, and no other', async (t) => {
  // Some are of a gateway of several workers alone.
  const pages = [await exposition(t), await exposition(t, 2)]
  const found = [...new Set(pages.flatMap(families).map(({ name }) => name))]
  const rows = page.split('\n').filter((line) => line.startsWith('| '))
  const told = rows.flatMap((row) => Array.from(row.matchAll(/`([a-z_]+)(?:\{([a-z,]+)\})?`/g), ([, name]) => name!))
  const prefix = 'sluice_'
  const ours = found.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length))
  t.same(
    ours.filter((name) => !told.includes(name)),
    [],
    'each is told of'
  )
  const looksLikeOne = /_(total|seconds|bytes|info)$/
  t.same(
    told.filter((name) => looksLikeOne.test(name) && !ours.includes(name) && !name.startsWith('nodejs_')),
    [],
    'each that is told of is there'
  )
})

t.test('the metrics of the library that break the rules are gone, and what tells the same is there', async (t) => {
  const text = await exposition(t)
  const found = families(text).map(({ name }) => name)
  for (const kind of ['handles', 'requests', 'resources']) {
    t.notOk(found.includes(`nodejs_active_${kind}_total`))
    t.ok(found.includes(`nodejs_active_${kind}`))
  }
  const active = Number(/^nodejs_eventloop_active_seconds_total (\S+)$/m.exec(text)?.[1])
  t.ok(active > 0 && active < process.uptime(), `the event loop was active for ${active} s`)
})
