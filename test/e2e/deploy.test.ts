// What is shipped to run the gateway with (config/deploy): each file is checked by its own tool where there is one. The
// steps of the image are those of test/packages.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor'
import t from 'tap'
import { parse } from 'yaml'
import { routes } from '../../core/admin/routes.ts'
import { sluice } from '../kit/command.ts'
import { lacks, runProgram } from '../kit/programs.ts'
import { python } from './python/venv.ts'

t.setTimeout(600_000)
const root = join(import.meta.dirname, '../..')
const folder = join(root, 'config/deploy')
const read = (name: string): string => readFileSync(join(folder, name), 'utf8')
const manifests = readdirSync(join(folder, 'kubernetes')).map((name) => `kubernetes/${name}`)
const interpreter = python()

/** The settings of the container in the StatefulSet that the tests look at. */
interface Container {
  args: string[]
  ports: { name: string; containerPort: number }[]
  volumeMounts: { name: string; mountPath: string; subPath?: string }[]
  [probe: `${string}Probe`]: { httpGet: { path: string; port: string } }
}
const { spec } = parse(read('kubernetes/statefulset.yaml')) as {
  spec: {
    template: {
      metadata: { labels: object }
      spec: { terminationGracePeriodSeconds: number; containers: [Container] }
    }
  }
}
const pod = spec.template.spec
const [container] = pod.containers

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

t.test('the ServiceMonitor is one for the operator of Prometheus', (t) => {
  const monitor = parse(read('kubernetes/servicemonitor.yaml'))
  new ServiceMonitor(monitor).validate()
  monitor.spec.endpoints[0].interval = 15
  t.throws(() => new ServiceMonitor(monitor).validate(), /interval must be string/)
  t.end()
})

t.test('the configuration in the ConfigMap is right, and the pod has its ports, paths and times', async (t) => {
  const config = join(t.testdir(), 'gateway.yaml')
  const text = parse(read('kubernetes/configmap.yaml')).data['gateway.yaml'] as string
  writeFileSync(config, text)
  const { SLUICE_ADMIN_TOKEN } = parse(read('kubernetes/secret.yaml')).stringData
  const checked = await sluice(['check', '--config', config], { env: { SLUICE_ADMIN_TOKEN } })
  t.equal(checked.code, 0, checked.out)
  const { listen, admin, store } = parse(text)
  t.same(
    container.ports.map(({ containerPort }) => containerPort),
    [listen.port, admin.port]
  )
  t.ok(store.sqlite.startsWith(`${container.volumeMounts.find(({ name }) => name === 'data')!.mountPath}/`))
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
  const { lame_duck, drain_timeout } = parse(text).limits
  t.ok(pod.terminationGracePeriodSeconds >= seconds(lame_duck) + seconds(drain_timeout) + 5)
  const labels = spec.template.metadata.labels
  t.same(parse(read('kubernetes/service.yaml')).spec.selector, labels)
  t.same(parse(read('kubernetes/poddisruptionbudget.yaml')).spec.selector.matchLabels, labels)
})

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

t.test('compose names files and variables that are there', (t) => {
  const { services, volumes } = parse(read('compose.yaml'))
  const { build, volumes: mounted } = services.sluice
  t.ok(existsSync(join(folder, build.context, build.dockerfile)))
  t.same(
    mounted.map((mount: string) => mount.split(':')[0]).filter((name: string) => !name.startsWith('.')),
    Object.keys(volumes)
  )
  t.end()
})
