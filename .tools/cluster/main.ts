// A cluster on this machine: PostgreSQL, Redis, gateways and HAProxy before them, which all end with it.
// npm run cluster -- [--nodes N] [--port PORT] [--admin-port PORT] [--folder FOLDER] [--config FILE]
import { chownSync, chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { freePort } from '../../test/kit/ports.ts'
import { findPrograms, serverAccount } from './programs.ts'
import { haproxyCommand, postgresCommand, prepareDatabase, redisCommand } from './servers.ts'
import type { Place } from './servers.ts'
import { Service, takes } from './service.ts'
import type { Command } from './service.ts'

const root = join(import.meta.dirname, '../..')

const usage = `npm run cluster -- [options]
  --nodes N          how many gateways (3)
  --port PORT        of HAProxy, for clients (8080); the gateways have those above it
  --admin-port PORT  of the first gateway's admin API (9091); the others have those above it
  --folder FOLDER    where the data are kept from one run to the next (.cache/cluster)
  --config FILE      the configuration of the gateways (.tools/cluster/gateway.yaml)`

/** What was asked for. */
interface Wish {
  readonly nodes: number
  readonly port: number
  readonly adminPort: number
  readonly folder: string
  readonly config: string
}

/** @throws Error for an option that there is not, and for a number that is none */
function readWish(args: readonly string[]): Wish {
  const { values } = parseArgs({
    args: [...args],
    options: {
      nodes: { type: 'string', default: '3' },
      port: { type: 'string', default: '8080' },
      'admin-port': { type: 'string', default: '9091' },
      folder: { type: 'string', default: join(root, '.cache/cluster') },
      config: { type: 'string', default: join(import.meta.dirname, 'gateway.yaml') }
    }
  })
  const whole = (name: 'nodes' | 'port' | 'admin-port', most: number): number => {
    const value = Number(values[name])
    if (!Number.isInteger(value) || value < 1 || value > most)
      throw new Error(`--${name} is a whole number from 1 to ${most}, and not ${values[name]}.`)
    return value
  }
  return {
    nodes: whole('nodes', 20),
    port: whole('port', 65_000),
    adminPort: whole('admin-port', 65_000),
    folder: resolve(values.folder),
    config: resolve(values.config)
  }
}

function say(text: string): void {
  process.stderr.write(`${text}\n`)
}

/** The cluster. What was started last is ended first. */
class Cluster {
  readonly #services: Service[] = []
  readonly #wish: Wish
  readonly #place: Place
  #ending: Promise<void> | undefined

  constructor(wish: Wish) {
    const account = serverAccount()
    mkdirSync(wish.folder, { recursive: true })
    const run = mkdtempSync(join(realpathSync(tmpdir()), 'sluice-cluster-'))
    chmodSync(run, 0o700)
    if (account) chownSync(run, account.uid, account.gid)
    this.#wish = wish
    this.#place = { data: wish.folder, run, account }
  }

  async #start(command: Command): Promise<string> {
    const service = new Service(command, say)
    this.#services.push(service)
    return service.start()
  }

  /** @throws Error when a part does not start */
  async start(): Promise<void> {
    const { nodes, port, adminPort, folder, config } = this.#wish
    const members = Array.from({ length: nodes }, (_, index) => {
      return { name: `node-${index + 1}`, port: port + 1 + index, adminPort: adminPort + index }
    })
    for (const one of [port, ...members.flatMap(({ port, adminPort }) => [port, adminPort])])
      if (await takes(one)) throw new Error(`Port ${one} is in use: choose others by --port and --admin-port.`)
    const programs = findPrograms()

    say(`Data are in ${folder}.`)
    await this.#start(postgresCommand(programs, this.#place))
    const postgres = await prepareDatabase(this.#place)
    const [redisServer, redis] = redisCommand(programs, this.#place, await freePort())
    await this.#start(redisServer)
    const simulatorPort = await freePort()
    const node = { file: process.execPath, cwd: root, signals: ['TERM', 'KILL'] } as const
    await this.#start({
      ...node,
      name: 'simulator',
      args: [join(root, 'core/simulator/main.ts'), '--port', String(simulatorPort)],
      ready: 'ready'
    })
    const start = async (member: (typeof members)[number]): Promise<void> => {
      const env = {
        CLUSTER_PORT: String(member.port),
        CLUSTER_ADMIN_PORT: String(member.adminPort),
        CLUSTER_POSTGRES: postgres,
        CLUSTER_REDIS: redis,
        CLUSTER_FOLDER: join(folder, member.name),
        CLUSTER_SIMULATOR: `http://127.0.0.1:${simulatorPort}/v1`
      }
      const args = [join(root, 'core/main.ts'), 'start', '--config', config]
      await this.#start({ ...node, name: member.name, args, env, ready: '"message":"ready"' })
    }
    await Promise.all(members.map(start))
    await this.#start(haproxyCommand(programs, this.#place, port, members))
    this.#tell(members, postgres, redis)
  }

  #tell(members: readonly { name: string; port: number; adminPort: number }[], postgres: string, redis: string): void {
    const address = (port: number): string => `http://127.0.0.1:${port}`
    const url = address(this.#wish.port)
    const pids = Object.fromEntries(this.#services.map(({ name, pid }) => [name, pid]))
    const nodes = members.map(({ name, port, adminPort }) => {
      return { name, url: address(port), admin_url: address(adminPort), pid: pids[name] }
    })
    process.stdout.write(`${JSON.stringify({ message: 'ready', url, nodes, postgres, redis, pids })}\n`)
    say(`
The cluster is ready at ${url}:
  curl ${url}/v1/chat/completions -H 'authorization: Bearer sk-demo-cluster-000000000000' \\
    -H 'content-type: application/json' -d '{"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}'
${nodes.map(({ name, url, admin_url: admin, pid }) => `  ${name}: ${url}, admin ${admin}, process ${pid}`).join('\n')}
  psql '${postgres}'
Whatever you kill is started again. Ctrl-C ends everything.`)
  }

  /** Ends all parts in good order: no gateway is without its servers. */
  end(): Promise<void> {
    this.#ending ??= this.#end()
    return this.#ending
  }

  async #end(): Promise<void> {
    const are = (prefix: string) => this.#services.filter(({ name }) => name.startsWith(prefix))
    for (const group of [are('haproxy'), are('node-'), are('simulator'), are('redis'), are('postgres')])
      await Promise.all(group.map((service) => service.stop()))
    rmSync(this.#place.run, { recursive: true, force: true })
  }

  /** Ends all parts at once. */
  kill(): void {
    for (const service of this.#services) service.kill()
  }
}

/** Runs a cluster until a signal ends it. */
async function run(wish: Wish): Promise<void> {
  const cluster = new Cluster(wish)
  let asked = false
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => {
      if (asked) return cluster.kill()
      asked = true
      say('Ending; once more ends it at once.')
      void cluster.end()
    })
  try {
    await cluster.start()
  } catch (error) {
    await cluster.end()
    if (!asked) throw error
  }
}

try {
  let wish: Wish | undefined
  try {
    wish = readWish(process.argv.slice(2))
  } catch (error) {
    say(`${(error as Error).message}\n\n${usage}`)
    process.exitCode = 2
  }
  if (wish) await run(wish)
} catch (error) {
  say((error as Error).message)
  process.exitCode = 1
}
