// The alert rules and the dashboard: whether their names exist, and what a real Prometheus makes of them.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { parse, stringify } from 'yaml'
import { GatewayError } from '../../core/errors.ts'
import type { ErrorCode } from '../../core/errors.ts'
import { makeCertificate } from '../kit/certificate.ts'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { lacks, program, runProgram } from '../kit/programs.ts'

const folder = join(import.meta.dirname, '../../config/observability')
const file = (name: string): string => readFileSync(join(folder, name), 'utf8')

interface Rule {
  alert?: string
  record?: string
  expr: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
}
const rules = (parse(file('rules.yaml')) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules)
const alerts = rules.flatMap((rule) => (rule.alert === undefined ? [] : [{ ...rule, alert: rule.alert }]))
const records = rules.flatMap(({ record, expr }) => (record === undefined ? [] : [{ record, expr }]))

interface Panel {
  id: number
  type: string
  title: string
  description?: string
  gridPos: { x: number; y: number; w: number; h: number }
  datasource?: { uid: string }
  targets?: { expr: string; datasource: { uid: string } }[]
}
const dashboard = JSON.parse(file('dashboard.json')) as {
  panels: Panel[]
  annotations: { list: { expr: string }[] }
  templating: { list: { name: string; definition?: string }[] }
}
/** What the dashboard asks for, with its variables as Grafana fills them in when everything is shown. */
const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => [title, filled(expr)] as const)
)

function filled(expr: string): string {
  return expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$(job|instance)\b/g, '.+')
}

/** The metrics that an expression of PromQL names. */
function namesIn(expr: string): string[] {
  return expr.replaceAll(/"[^"]*"/g, '').match(/\b(?:sluice|nodejs|process)[_:][a-z0-9_:]+/g) ?? []
}

/**
 * A gateway that answers some requests and fails others, with a certificate, a credential of a command, a channel with
 * two credentials, and a budget of which a threshold is reached.
 */
async function busyGateway(t: Test): Promise<{ running: LocalGateway; traffic(): Promise<void> }> {
  const { cert, key } = makeCertificate(t)
  const dead = {
    protocol: 'openai',
    base_url: 'https://127.0.0.1:1/v1',
    private: true,
    credential: { command: ['echo', 'a-credential'] },
    tls: { cert, key },
    models: { dead: 'dead' }
  }
  const { credential: _one, ...rest } = dead
  const running = await gateway(t, {
    channels: { dead, pair: { ...rest, credentials: ['sk-one-00000000', 'sk-two-00000000'], priority: 1 } },
    models: { dead: { price: { input: 1, output: 1 } }, demo: { price: { input: 10_000, output: 10_000 } } },
    store: { backups: { to: './backups' } },
    tenants: { acme: { budget: { usd: 100, per: 'total', alerts: [1] } } }
  })
  const traffic = async (): Promise<void> => {
    const bodies = [{ stream: true }, {}, {}, { model: 'dead' }]
    for (const body of bodies) await running.chat({ max_tokens: 5, ...body })
    // The budget must not be spent before Prometheus has looked twice.
    await sleep(100)
  }
  return { running, traffic }
}

/** What a gateway that is well and has a store of its own has no samples of. */
const silent = new Set(['sluice_metrics_series_dropped_total', 'sluice_store_trouble', 'sluice_store_nodes'])

t.test('no rule and no panel names a metric that does not exist', async (t) => {
  const { running } = await busyGateway(t)
  const { text } = await ask(t, running.adminUrl, { path: '/metrics' })
  const exposed = Array.from(text.matchAll(/^# TYPE (\S+) (\S+)$/gm)).flatMap(([, name, type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name!]
  )
  const known = new Set([...exposed, ...records.map(({ record }) => record)])
  const asked = [
    ...rules.map(({ expr }) => expr),
    ...queries.map(([, expr]) => expr),
    ...dashboard.annotations.list.map(({ expr }) => expr),
    ...dashboard.templating.list.flatMap(({ definition }) => definition ?? [])
  ]
  t.ok(asked.flatMap(namesIn).length > 60)
  t.same(
    asked.flatMap(namesIn).filter((name) => !known.has(name)),
    []
  )
})

t.test('what the gateway or its upstreams fail with counts as a failure, and nothing else does', async (t) => {
  const [, table = ''] = /const errorTable = \{([^]*?)\n\} as const/.exec(
    readFileSync(join(import.meta.dirname, '../../core/errors.ts'), 'utf8')
  )!
  const errorCodes = Array.from(table.matchAll(/^  (\w+):/gm), ([, code]) => code as ErrorCode)
  t.ok(errorCodes.length > 50)
  for (const { expr } of records.slice(0, 4)) {
    const pattern = new RegExp(`^(?:${/code=~"([^"]+)"/.exec(expr)![1]})$`)
    for (const code of errorCodes) {
      const owed = new GatewayError(code, '').status >= 500
      t.equal(pattern.test(code), owed, code)
    }
  }
})

t.test('every alert says what it is about, and how urgent it is', async (t) => {
  for (const { alert, labels, annotations } of alerts) {
    t.match(alert, /^Sluice[A-Z]/)
    t.match(labels, { severity: /^(page|ticket)$/ }, alert)
    t.match(annotations, { summary: /^\S.*\.$/, description: /^\S.*\.$/ }, alert)
  }
})

t.test('every panel has a query of its own, a place, and the data source that was chosen', async (t) => {
  const { panels } = dashboard
  t.equal(new Set(panels.map(({ id }) => id)).size, panels.length, 'ids')
  for (const { type, title, description, targets, datasource, gridPos } of panels) {
    t.ok(gridPos.x + gridPos.w <= 24, title)
    if (type === 'row') continue
    t.match(description, /^\S.*\.$/, title)
    t.ok(targets!.length > 0, title)
    for (const one of [datasource, ...targets!.map((target) => target.datasource)]) t.equal(one!.uid, '${datasource}')
  }
  const overlaps = panels.filter(({ id, gridPos: a }) =>
    panels.some(
      ({ id: other, gridPos: b }) =>
        other > id && a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
    )
  )
  t.same(overlaps, [])
})

t.test('promtool finds the rules right, and the tests of the rules pass', { skip: lacks('promtool') }, async (t) => {
  const check = await runProgram('promtool', ['check', 'rules', join(folder, 'rules.yaml')])
  t.equal(check.code, 0, check.output)
  const run = await runProgram('promtool', ['test', 'rules', join(folder, 'rules.test.yaml')])
  t.equal(run.code, 0, run.output)
  interface AlertTest {
    alert_rule_test: { alertname: string; exp_alerts: unknown[] }[]
  }
  const tested = (parse(file('rules.test.yaml')) as { tests: AlertTest[] }).tests.flatMap((one) => one.alert_rule_test)
  for (const { alert } of alerts) {
    const own = tested.filter(({ alertname }) => alertname === alert)
    t.ok(
      own.some(({ exp_alerts: fires }) => fires.length > 0),
      `${alert} has a test in which it fires`
    )
    t.ok(
      own.some(({ exp_alerts: fires }) => fires.length === 0),
      `${alert} has a test in which it does not`
    )
  }
})

/** A Prometheus that scrapes a gateway each second. Gives the result of a query. */
async function prometheus(t: Test, { adminUrl }: LocalGateway): Promise<(path: string) => Promise<any>> {
  const place = mkdtempSync(join(tmpdir(), 'sluice-prometheus-'))
  writeFileSync(
    join(place, 'prometheus.yml'),
    stringify({
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [join(folder, 'rules.yaml')],
      scrape_configs: [{ job_name: 'sluice', static_configs: [{ targets: [new URL(adminUrl).host] }] }]
    })
  )
  const child = spawn(
    program('prometheus')!,
    [
      `--config.file=${place}/prometheus.yml`,
      `--storage.tsdb.path=${place}/data`,
      '--web.listen-address=127.0.0.1:0',
      `--web.console.templates=${place}`,
      `--web.console.libraries=${place}`
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] }
  )
  t.teardown(async () => {
    child.kill('SIGKILL')
    await once(child, 'close')
    rmSync(place, { recursive: true })
  })
  let log = ''
  child.stderr.on('data', (bytes: Buffer) => (log += bytes.toString()))
  const address = (): string | undefined => /msg="Listening on" address=(\S+)/.exec(log)?.[1]
  await eventually(() => address() !== undefined || child.exitCode !== null, 60_000)
  if (address() === undefined) throw new Error(`Prometheus did not start: ${log}`)
  return async (path) => {
    const { data, error } = (await (await fetch(`http://${address()}/api/v1/${path}`)).json()) as any
    if (error) throw new Error(`${path}: ${error}`)
    return data
  }
}

t.test(
  'a Prometheus that scrapes a busy gateway has an answer to every query',
  { skip: lacks('prometheus') },
  async (t) => {
    const { running, traffic } = await busyGateway(t)
    const get = await prometheus(t, running)
    const answer = async (expr: string): Promise<{ value: [number, string] }[]> =>
      (await get(`query?query=${encodeURIComponent(expr)}`)).result
    // A rate takes two scrapes with a difference between them, and a sum of rates takes an evaluation after that.
    await eventually(async () => {
      await traffic()
      const [seen] = await answer('max_over_time(sluice:request_errors:ratio_rate6h[1m])')
      return Number(seen?.value[1]) > 0
    }, 60_000)
    // Each record is evaluated in its turn, and late on a busy machine.
    const answered = (expr: string, as: (number: number) => boolean = () => true): Promise<boolean> =>
      eventually(async () => {
        if ((await answer(expr)).some(({ value: [, number] }) => as(Number(number)))) return true
        await traffic()
        return false
      }, 60_000).then(
        () => true,
        () => false
      )
    for (const [title, expr] of queries) t.ok(await answered(expr, Number.isFinite), `${title} has a number: ${expr}`)
    for (const { record } of records) t.ok(await answered(record), record)
    for (const name of new Set(alerts.flatMap(({ expr }) => namesIn(expr))))
      if (!silent.has(name)) t.ok((await answer(name)).length > 0, `${name} has samples`)
    const { groups } = await get('rules')
    const evaluated = groups.flatMap((group: { rules: unknown[] }) => group.rules)
    t.equal(evaluated.length, rules.length)
    for (const { name, health, lastError } of evaluated)
      t.match({ health, lastError: lastError ?? '' }, { health: 'ok', lastError: '' }, name)
    const { activeTargets } = await get('targets')
    t.match(activeTargets, [{ health: 'up', lastError: '' }])
  }
)
