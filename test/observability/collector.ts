// The OpenTelemetry Collector takes what the gateway exports: all three signals, whole. It runs with telemetry.test.ts.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { stringify } from 'yaml'
import { gateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

const program = join(import.meta.dirname, '../../.cache/collector/collector')
const skip = !existsSync(program) && 'the collector is not built: test/observability/collector/build'

/** Starts the collector. Gives its address, and all that it has written so far, a JSON object per export. */
async function start(t: Test): Promise<{ url: string; exports(): any[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-collector-'))
  const [config, file] = [join(folder, 'config.yaml'), join(folder, 'exports.json')]
  const pipeline = { receivers: ['otlp'], exporters: ['file'] }
  writeFileSync(
    config,
    stringify({
      receivers: { otlp: { protocols: { http: { endpoint: '127.0.0.1:0' } } } },
      exporters: { file: { path: file, flush_interval: '100ms' } },
      service: {
        telemetry: { metrics: { level: 'none' }, logs: { encoding: 'json' } },
        pipelines: { traces: pipeline, metrics: pipeline, logs: pipeline }
      }
    })
  )
  const child = spawn(program, ['--config', `file:${config}`], { stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await once(child, 'close')
    rmSync(folder, { recursive: true })
  })
  let log = ''
  child.stderr.on('data', (bytes: Buffer) => (log += bytes.toString()))
  await eventually(() => log.includes('Everything is ready') || child.exitCode !== null, 30_000)
  const endpoint = /Starting HTTP server.*?"endpoint":"([^"]+)"/.exec(log)?.[1]
  if (endpoint === undefined) throw new Error(`the collector did not start: ${log}`)
  return {
    url: `http://${endpoint}`,
    exports: () =>
      existsSync(file)
        ? readFileSync(file, 'utf8')
            .split('\n')
            .filter((line) => line.endsWith('}'))
            .map((line) => JSON.parse(line) as unknown)
        : []
  }
}

t.test('the collector takes traces, metrics and logs, and loses nothing of them', { skip }, async (t) => {
  const { url, exports } = await start(t)
  const running = await gateway(t, { telemetry: { otlp: url, interval: '1s' } })
  const replies = await Promise.all(Array.from({ length: 20 }, (_, i) => running.chat({ stream: i % 2 === 0 })))
  const ids = replies.map(({ headers }) => headers['x-request-id']!).toSorted()
  const spans = (): any[] => items('resourceSpans', 'scopeSpans', 'spans')
  const logs = (): any[] => items('resourceLogs', 'scopeLogs', 'logRecords').filter(({ eventName }) => eventName)
  const metrics = (): any[] => items('resourceMetrics', 'scopeMetrics', 'metrics')
  const items = (outer: string, scopes: string, inner: string): any[] =>
    exports().flatMap((one) => (one[outer] ?? []).flatMap((r: any) => r[scopes].flatMap((s: any) => s[inner])))
  const usage = (): any => metrics().findLast(({ name }) => name === 'gen_ai.client.token.usage')
  await eventually(
    () => spans().length >= 40 && logs().length >= 20 && usage()?.histogram.dataPoints[0].count === '20',
    30_000
  )
  const servers = spans().filter(({ parentSpanId }) => parentSpanId === '' || parentSpanId === undefined)
  const attributesOf = ({ attributes }: any): Record<string, any> =>
    Object.fromEntries(attributes.map(({ key, value }: any) => [key, Object.values(value)[0]]))
  t.same(servers.map((span) => attributesOf(span)['sluice.request_id']).toSorted(), ids)
  t.same(
    logs()
      .map((record) => JSON.parse(record.body.stringValue).request_id)
      .toSorted(),
    ids
  )
  for (const server of servers) {
    const [attempt, ...more] = spans().filter(({ parentSpanId }) => parentSpanId === server.spanId)
    t.equal(more.length, 0)
    t.equal(attempt.traceId, server.traceId)
    t.match(attributesOf(attempt), { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'demo' })
    t.ok(Number(attributesOf(attempt)['gen_ai.usage.output_tokens']) > 0)
  }
  const requests = metrics().findLast(({ name }) => name === 'sluice_requests_total')
  t.match(requests.sum, { aggregationTemporality: 2, isMonotonic: true, dataPoints: [{ asDouble: 20 }] })
})
