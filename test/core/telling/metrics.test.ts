// Metrics as Prometheus sees them: the exposition, the sums, and what is refused.
import fc from 'fast-check'
import t from 'tap'
import { Metrics } from '../../../core/telling/metrics.ts'

/** The samples of our own metrics by name and labels, as a scraper reads them. */
async function samples(metrics: Metrics): Promise<Record<string, number>> {
  const { text } = await metrics.expose()
  return Object.fromEntries(
    text.split('\n').flatMap((line) => {
      const [, series, value] = /^(sluice_.*) (\S+)$/.exec(line) ?? []
      return series === undefined ? [] : [[series, Number(value)]]
    })
  )
}

t.test('counters, gauges and histograms are exposed with their labels', async (t) => {
  const metrics = new Metrics()
  const requests = metrics.counter({ name: 'requests_total', help: 'Requests.', labels: ['model', 'code'] })
  requests.add({ model: 'demo', code: 'ok' })
  requests.add({ code: 'ok', model: 'demo' }, 2)
  requests.add({ model: 'a"b\\c\nd', code: 'ok' })
  const running = metrics.gauge({ name: 'running', help: 'Running.' })
  running.set({}, 5)
  running.add({}, -2)
  const seconds = metrics.histogram({ name: 'seconds', help: 'Seconds.', labels: ['model'], buckets: [0.1, 1] })
  for (const value of [0.05, 0.1, 0.5, 7]) seconds.observe({ model: 'demo' }, value)
  t.match(await samples(metrics), {
    'sluice_requests_total{model="demo",code="ok"}': 3,
    'sluice_requests_total{model="a\\"b\\\\c\\nd",code="ok"}': 1,
    sluice_running: 3,
    'sluice_seconds_bucket{model="demo",le="0.1"}': 2,
    'sluice_seconds_bucket{model="demo",le="1"}': 3,
    'sluice_seconds_bucket{model="demo",le="+Inf"}': 4,
    'sluice_seconds_count{model="demo"}': 4,
    'sluice_seconds_sum{model="demo"}': 7.65
  })
  const { contentType, text } = await metrics.expose()
  t.equal(contentType, 'text/plain; version=0.0.4; charset=utf-8')
  t.match(text, /^# HELP sluice_requests_total Requests\.\n# TYPE sluice_requests_total counter$/m)
})

t.test('a metric without labels is there before anything happened, one with labels is not', async (t) => {
  const metrics = new Metrics()
  metrics.counter({ name: 'failures_total', help: 'Failures.' })
  metrics.counter({ name: 'labelled_total', help: 'Labelled.', labels: ['a'] })
  const found = await samples(metrics)
  t.equal(found['sluice_failures_total'], 0)
  t.notOk(Object.keys(found).some((series) => series.startsWith('sluice_labelled_total')))
})

t.test('what runs and how the process does is told with them', async (t) => {
  const { text } = await new Metrics().expose()
  t.match(text, new RegExp(`^sluice_build_info\\{version="[\\d.]+",node="${process.versions.node}"\\} 1$`, 'm'))
  for (const name of [
    'process_resident_memory_bytes',
    'process_cpu_seconds_total',
    'nodejs_eventloop_lag_p99_seconds',
    'process_start_time_seconds'
  ]) {
    t.match(text, new RegExp(`^${name} `, 'm'), name)
  }
})

t.test('gateways in one process count apart, and tell of the process alike', async (t) => {
  const [one, two] = [new Metrics(), new Metrics()]
  one.counter({ name: 'requests_total', help: 'Requests.' }).add({}, 3)
  two.counter({ name: 'requests_total', help: 'Requests.' }).add({})
  t.equal((await samples(one))['sluice_requests_total'], 3)
  t.equal((await samples(two))['sluice_requests_total'], 1)
})

t.test('the same name gives the same metric, in another kind or with other labels it is refused', async (t) => {
  const metrics = new Metrics()
  const definition = { name: 'attempts_total', help: 'Attempts.', labels: ['channel'] }
  t.equal(metrics.counter(definition), metrics.counter({ ...definition }))
  t.throws(
    () => metrics.counter({ ...definition, labels: ['channel', 'code'] }),
    /attempts_total is a counter with the labels channel already/
  )
  t.throws(() => metrics.histogram(definition), /another name/)
  t.throws(() => metrics.counter({ name: 'attempts', help: 'Attempts.' }), /ends in _total/)
})

t.test('labels and values that are none are bugs, and are told as such', async (t) => {
  const metrics = new Metrics()
  const counter = metrics.counter({ name: 'a_total', help: 'A.', labels: ['model', 'code'] })
  t.throws(() => counter.add({ model: 'demo' }), /code: undefined/)
  t.throws(
    () => counter.add({ model: 'demo', code: 'ok', key: 'sk-1' }),
    /sluice_a_total has the labels model, code, and is given key/
  )
  t.throws(() => counter.add({ model: undefined as unknown as string, code: 'ok' }), TypeError)
  const plain = metrics.counter({ name: 'b_total', help: 'B.' })
  for (const value of [-1, NaN, Infinity]) t.throws(() => plain.add({}, value), RangeError)
  const gauge = metrics.gauge({ name: 'g', help: 'G.' })
  t.throws(() => gauge.set({}, NaN), RangeError)
  t.throws(() => metrics.histogram({ name: 'h', help: 'H.' }).observe({}, NaN), RangeError)
  t.match(await samples(metrics), { sluice_b_total: 0, sluice_g: 0, sluice_h_count: 0 }, 'and leave nothing behind')
})

t.test('a label that is not from a closed list cannot fill the memory', async (t) => {
  const metrics = new Metrics()
  const counter = metrics.counter({ name: 'leak_total', help: 'Leak.', labels: ['user'] })
  for (let i = 0; i < 10_500; i++) counter.add({ user: `user-${i}` })
  counter.add({ user: 'user-1' })
  const found = await samples(metrics)
  t.equal(Object.keys(found).filter((series) => series.startsWith('sluice_leak_total')).length, 10_000)
  t.equal(found['sluice_metrics_series_dropped_total{metric="sluice_leak_total"}'], 500)
  t.equal(found['sluice_leak_total{user="user-1"}'], 2, 'those that are there go on counting')
})

t.test('numbers that live elsewhere are read at each scrape', async (t) => {
  const metrics = new Metrics()
  let open = 1
  metrics.observed(
    { name: 'connections', help: 'Connections.', labels: ['protocol'] },
    () =>
      [
        [{ protocol: 'http1' }, open],
        [{ protocol: 'http2' }, 0]
      ] as const
  )
  metrics.observed({ name: 'commits_total', help: 'Commits.' }, () => open * 10)
  t.match(await samples(metrics), {
    'sluice_connections{protocol="http1"}': 1,
    'sluice_connections{protocol="http2"}': 0,
    sluice_commits_total: 10
  })
  open = 2
  t.match(await samples(metrics), { 'sluice_connections{protocol="http1"}': 2, sluice_commits_total: 20 })
  t.match((await metrics.expose()).text, /# TYPE sluice_connections gauge[^]*# TYPE sluice_commits_total counter/)
})

t.test(
  'OpenMetrics names families of counters without _total and has an end, also when both formats are read in turn',
  async (t) => {
    const metrics = new Metrics()
    metrics.counter({ name: 'requests_total', help: 'Requests.' }).add({})
    const accept = 'application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2'
    const [open, plain, again] = await Promise.all([
      metrics.expose(accept),
      metrics.expose('*/*'),
      metrics.expose(accept)
    ])
    t.match(open.contentType, /^application\/openmetrics-text; version=1\.0\.0/)
    t.match(open.text, /^# HELP sluice_requests Requests\.\n# TYPE sluice_requests counter\nsluice_requests_total 1$/m)
    t.match(plain.text, /^# TYPE sluice_requests_total counter\nsluice_requests_total 1$/m)
    t.ok(open.text.endsWith('\n# EOF\n'))
    t.notMatch(open.text, /\n\n/)
    t.notMatch(open.text, /^# TYPE \S+_total counter/m, 'the families of the process too')
    const families = (word: string): string[] =>
      [...open.text.matchAll(new RegExp(`^# ${word} (\\S+) `, 'gm'))].map(([, name]) => name!)
    t.same(families('HELP'), families('TYPE'), 'help and type speak of the same families')
    t.equal(again.text.split('\n').length, open.text.split('\n').length)
  }
)

t.test('a series is the sum of what was added to its labels, whatever they are', async () => {
  const label = fc.string({ maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(label, label, fc.integer({ min: 0, max: 1000 })), { maxLength: 30 }),
      async (updates) => {
        const metrics = new Metrics()
        const counter = metrics.counter({ name: 'sum_total', help: 'Sum.', labels: ['a', 'b'] })
        const sums = new Map<string, number>()
        const shown = (text: string): string => text.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n')
        for (const [a, b, by] of updates) {
          counter.add({ a, b }, by)
          // An empty label is not shown.
          const labels = [a && `a="${shown(a)}"`, b && `b="${shown(b)}"`].filter((text) => text !== '').join()
          const series = `sluice_sum_total${labels && `{${labels}}`}`
          sums.set(series, (sums.get(series) ?? 0) + by)
        }
        const found = Object.entries(await samples(metrics)).filter(([series]) => series.startsWith('sluice_sum_total'))
        return JSON.stringify(found.sort()) === JSON.stringify([...sums].sort())
      }
    ),
    { numRuns: 60 }
  )
})

t.test('series that are not kept go, and begin anew when they are added to', async (t) => {
  const metrics = new Metrics()
  const counter = metrics.counter({ name: 'kept_total', help: 'Kept.', labels: ['a', 'b'] })
  for (const a of ['', 'x', 'y']) for (const b of ['1', '2']) counter.add({ a, b }, 5)
  counter.retain(({ a, b }) => a === '' || (a === 'x' && b === '2'))
  const found = async (): Promise<[string, number][]> =>
    Object.entries(await samples(metrics)).filter(([series]) => series.startsWith('sluice_kept_total')) as never
  const left = [
    ['sluice_kept_total{b="1"}', 5],
    ['sluice_kept_total{b="2"}', 5],
    ['sluice_kept_total{a="x",b="2"}', 5]
  ]
  t.same(await found(), left)
  counter.add({ a: 'y', b: '1' })
  counter.add({ a: 'x', b: '2' })
  t.same(await found(), [
    ...left.slice(0, 2),
    ['sluice_kept_total{a="x",b="2"}', 6],
    ['sluice_kept_total{a="y",b="1"}', 1]
  ])
})

t.test('what several threads count is one sum, and a gauge is what it says it is of all', async (t) => {
  const threads = [new Metrics(), new Metrics(), new Metrics()] as const
  const [own, ...others] = threads
  for (const [at, metrics] of threads.entries()) {
    metrics.counter({ name: 'requests_total', help: 'Requests.', labels: ['model'] }).add({ model: 'demo' }, at + 1)
    metrics.histogram({ name: 'seconds', help: 'Seconds.', buckets: [1, 10] }).observe({}, 5 * at)
    metrics.gauge({ name: 'running', help: 'Running.' }).set({}, at + 1)
    metrics.gauge({ name: 'left_ratio', help: 'Left.', aggregator: 'min' }).set({}, 0.5 + at)
    metrics.observed({ name: 'state', help: 'State.', labels: ['is'], aggregator: 'max' }, () => [
      [{ is: 'well' }, Number(at === 1)]
    ])
  }
  own.counter({ name: 'reloads_total', help: 'Only here.' }).add({})
  others[1]!.counter({ name: 'late_total', help: 'Only there.' }).add({}, 7)
  t.match(await samples(own), { 'sluice_requests_total{model="demo"}': 1, sluice_running: 1 })
  own.join(async () => others.map((one) => structuredClone(one.own)))
  t.match(await samples(own), {
    'sluice_requests_total{model="demo"}': 6,
    'sluice_seconds_bucket{le="1"}': 1,
    'sluice_seconds_bucket{le="10"}': 3,
    'sluice_seconds_bucket{le="+Inf"}': 3,
    sluice_seconds_count: 3,
    sluice_seconds_sum: 15,
    sluice_running: 6,
    sluice_left_ratio: 0.5,
    'sluice_state{is="well"}': 1,
    sluice_reloads_total: 1,
    sluice_late_total: 7,
    sluice_metrics_series_dropped_total: undefined
  })
  const { text } = await own.expose('application/openmetrics-text')
  t.match(text, /^sluice_build_info\{version="[^"]+",node="[^"]+"\} 1$/m)
  t.equal(text.match(/^process_cpu_seconds_total /gm)?.length, 1)
  const [requests] = (await own.snapshot()).filter(({ name }) => name === 'sluice_requests_total')
  t.match(requests, { type: 'counter', values: [{ labels: { model: 'demo' }, value: 6 }] })
})
