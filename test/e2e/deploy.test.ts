// What is shipped to run the gateway with (config/deploy): each file is checked by its own tool where there is one. The
// steps of the image are those of test/packages.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor'
import t from 'tap'
import type { Test } from 'tap'
import { parse } from 'yaml'
import { routes } from '../../core/admin/routes.ts'
import { sluice } from '../kit/command.ts'
import { balance } from '../kit/fleet.ts'
import { eventually } from '../kit/probe.ts'
import { lacks, runProgram } from '../kit/programs.ts'
import { python } from './python/venv.ts'

t.setTimeout(600_000)
const root = join(import.meta.dirname, '../..')
const folder = join(root, 'config/deploy')
const read = (name: string): string => readFileSync(join(folder, name), 'utf8')
/** The manifests of one gateway, and of several that share a store, with what has their pods. */
const forms = [
  ['kubernetes', 'statefulset.yaml'],
  ['cluster/kubernetes', 'deployment.yaml']
] as const
const manifests = forms.flatMap(([form]) => readdirSync(join(folder, form)).map((name) => `${form}/${name}`))
const interpreter = python()

/** The settings of a container that the tests look at. */
interface Container {
  args: string[]
  ports: { name: string; containerPort: number }[]
  volumeMounts: { name: string; mountPath: string; subPath?: string }[]
  [probe: `${string}Probe`]: { httpGet: { path: string; port: string } }
}

/** What a manifest says of pods, as far as the tests look at it. */
interface Pods {
  template: {
    metadata: { labels: object }
    spec: { terminationGracePeriodSeconds: number; containers: [Container] }
  }
}

t.test(
  'manifests have no field that Kubernetes does not know',
  {
    skip: interpreter === undefined && 'There is no python3 with venv and ensurepip (Debian: python3-venv).'
  },
  async (t) => {
    const script = `
import sys, yaml, kubernetes_validate
for name in sys.argv[1:]:
    data = yaml.safe_load(open(name))
    if data['kind'] != 'ServiceMonitor': kubernetes_validate.validate(data, '1.37', strict=True)
    data['metadata']['lable'] = {}
    try: kubernetes_validate.validate(data, '1.37', strict=True)
    except Exception: print(data['kind'])`
    const files = manifests.map((name) => join(folder, name))
    const { status, stdout, stderr } = spawnSync(interpreter!, ['-c', script, ...files], { encoding: 'utf8' })
    t.equal(status, 0, stderr)
    t.equal(stdout.trim().split('\n').length, manifests.length, 'and a misspelt field is found in each')
  }
)

t.test('the ServiceMonitors are some for the operator of Prometheus', (t) => {
  for (const [form] of forms) {
    const monitor = parse(read(`${form}/servicemonitor.yaml`))
    new ServiceMonitor(monitor).validate()
    monitor.spec.endpoints[0].interval = 15
    t.throws(() => new ServiceMonitor(monitor).validate(), /interval must be string/)
  }
  t.end()
})

for (const [form, pods] of forms)
  t.test(
    `the configuration in the ConfigMap is right, and pods have its ports, paths and times: ${form}`,
    async (t) => {
      const { template } = parse(read(`${form}/${pods}`)).spec as Pods
      const [container] = template.spec.containers
      const config = join(t.testdir(), 'gateway.yaml')
      const text = parse(read(`${form}/configmap.yaml`)).data['gateway.yaml'] as string
      writeFileSync(config, text)
      const env = parse(read(`${form}/secret.yaml`)).stringData as Record<string, string>
      const checked = await sluice(['check', '--config', config], { env })
      t.equal(checked.code, 0, checked.out)
      const { listen, admin, store, limits } = parse(text)
      t.same(
        container.ports.map(({ containerPort }) => containerPort),
        [listen.port, admin.port]
      )
      const data = container.volumeMounts.find(({ mountPath }) => mountPath === '/var/lib/sluice')
      t.ok(data && (store.folder === data.mountPath || store.sqlite.startsWith(`${data.mountPath}/`)))
      t.ok(container.volumeMounts.every(({ subPath }) => subPath === undefined))
      for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const) {
        const { path, port } = container[probe]!.httpGet
        t.ok(
          routes.some((route) => route.path === path && route.access === 'anyone'),
          `${path} answers anyone`
        )
        t.equal(port, 'admin')
      }
      const seconds = (text: string): number => Number.parseInt(text, 10)
      const needed = seconds(limits.lame_duck) + seconds(limits.drain_timeout) + 5
      t.ok(template.spec.terminationGracePeriodSeconds >= needed)
      const { labels } = template.metadata
      t.same(parse(read(`${form}/service.yaml`)).spec.selector, labels)
      t.same(parse(read(`${form}/poddisruptionbudget.yaml`)).spec.selector.matchLabels, labels)
    }
  )

t.test(
  'systemd finds nothing wrong with the units, and little that the gateway may do',
  {
    skip: lacks('systemd-analyze')
  },
  async (t) => {
    // The program of the unit must exist: here it is the Node that runs this test.
    const units = t.testdir()
    for (const name of ['sluice.service', 'sluice.socket', 'sluice-admin.socket'])
      writeFileSync(join(units, name), read(name).replaceAll('/usr/bin/sluice', process.execPath))
    const files = readdirSync(units).map((name) => join(units, name))
    const verified = await runProgram('systemd-analyze', ['verify', ...files])
    t.same(verified, { code: 0, output: '' })
    const rated = await runProgram('systemd-analyze', [
      'security',
      '--offline=true',
      '--threshold=20',
      join(units, 'sluice.service')
    ])
    t.equal(rated.code, 0, rated.output)
  }
)

t.test('the image has the clients of PostgreSQL and Redis that were tested', (t) => {
  const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  for (const name of ['pg', '@redis/client']) t.match(read('Dockerfile'), ` ${name}@${devDependencies[name]}`)
  t.end()
})

t.test('compose names files, volumes and services that are there', (t) => {
  for (const name of ['compose.yaml', 'cluster/compose.yaml']) {
    const home = join(folder, name, '..')
    const { services, volumes } = parse(read(name), { merge: true })
    const mounted: string[] = []
    for (const { build, volumes = [], depends_on = {} } of Object.values<any>(services)) {
      if (build) t.ok(existsSync(join(home, build.context, build.dockerfile)))
      for (const other of Object.keys(depends_on)) t.ok(other in services, other)
      mounted.push(...volumes.map((mount: string) => mount.split(':')[0]!))
    }
    const [folders, named] = [true, false].map((isPath) => mounted.filter((mount) => mount.startsWith('.') === isPath))
    t.same(named!.toSorted(), Object.keys(volumes).toSorted(), `${name}: each gateway has a folder of its own`)
    // Whoever starts one gateway brings a configuration along; that of several is shipped.
    if (name !== 'compose.yaml') for (const mount of folders!) t.ok(existsSync(join(home, mount)), mount)
  }
  t.end()
})

t.test('the gateways of compose have a right configuration, and HAProxy knows each of them', async (t) => {
  const { services } = parse(read('cluster/compose.yaml'), { merge: true })
  const gateways = Object.keys(services).filter((name) => services[name].image === 'sluice')
  const env = {
    SLUICE_ADMIN_TOKEN: 'a-token-of-at-least-24-characters',
    DATABASE_URL: 'postgres://sluice:secret@postgres:5432/sluice',
    REDIS_URL: 'redis://:secret@redis:6379'
  }
  t.same(Object.keys(services[gateways[0]!].environment).toSorted(), Object.keys(env).toSorted())
  const checked = await sluice(['check', '--config', join(folder, 'cluster/sluice/gateway.yaml')], { env })
  t.equal(checked.code, 0, checked.out)
  const { listen, admin, limits } = parse(read('cluster/sluice/gateway.yaml'))
  const known = [...read('cluster/haproxy.cfg').matchAll(/^ +server (\S+) (\S+) check(?: port (\d+))?$/gm)]
  t.same(
    known.map(([, ...parts]) => parts),
    [String(admin.port), undefined].flatMap((port) => gateways.map((name) => [name, `${name}:${listen.port}`, port]))
  )
  t.match(limits, { lame_duck: '10s' }, 'longer than two checks, which a busy machine is late to answer')
})

t.test('HAProxy takes its configuration', { skip: lacks('haproxy') }, async (t) => {
  const { code, output } = await runProgram('haproxy', ['-c', '-f', join(folder, 'cluster/haproxy.cfg')])
  t.equal(code, 0, output)
})

t.test('requests reach whoever takes connections when no gateway is ready', { skip: lacks('haproxy') }, async (t) => {
  const [first, second] = await Promise.all(['first', 'second'].map((name) => unready(t, name)))
  const url = await balance(t, t.testdir(), [first!, second!])
  const asked = async (): Promise<string> => {
    const reply = await fetch(url, { headers: { connection: 'close' } })
    return `${reply.status} ${await reply.text()}`
  }
  // After two checks they are left out.
  await eventually(() => first!.checks > 2 && second!.checks > 2, 30_000)
  t.match(await asked(), /^200 (first|second)$/)
  first!.close()
  for (let i = 0; i < 4; i++) t.equal(await asked(), '200 second')
  second!.close()
  t.match(await asked(), /^503 .*"overloaded"/)
})

/** What HAProxy takes for a gateway, which is never ready. */
async function unready(
  t: Test,
  name: string
): Promise<{ name: string; port: number; adminPort: number; readonly checks: number; close(): void }> {
  let checks = 0
  const servers = [
    createServer((_request, response) => void response.end(name)),
    createServer((_request, response) => {
      checks++
      response.writeHead(503).end()
    })
  ]
  const close = (): void => {
    for (const server of servers) if (server.listening) server.close().closeAllConnections()
  }
  t.teardown(close)
  const [port, adminPort] = await Promise.all(
    servers.map(async (server) => {
      await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
      return (server.address() as AddressInfo).port
    })
  )
  return {
    name,
    port: port!,
    adminPort: adminPort!,
    close,
    get checks() {
      return checks
    }
  }
}
