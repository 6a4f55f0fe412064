// The command `sluice start`: runs a gateway until a signal or a fault ends it.
import { createHash } from 'node:crypto'
import { watchConfig } from '../../config/files/watch.ts'
import type { Gateway } from '../container.ts'
import { inheritedSockets } from '../clients/inherited.ts'
import { Predecessor } from '../handover/predecessor.ts'
import { tellServiceManager } from '../program/service-manager.ts'
import { createLogger, logLevels } from '../telling/log.ts'
import type { Logger } from '../telling/log.ts'
import { suggestion } from '../options/suggest.ts'
import { configOption, defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import { fall, leave, leaveNow } from './command/farewell.ts'
import { thrownStack } from '../thrown.ts'

/** The suggested request uses the demo key of the shipped gateway.yaml. */
const chatPath = '/v1/chat/completions'
const demoKey = 'sk-demo-alice-000000000000'
/**
 * How long settling, writing and closing may take after the drain, in milliseconds. Then the process ends in any case.
 */
const farewellMs = 15_000

export const start = defineCommand({
  name: 'start',
  summary: 'runs the gateway until SIGTERM or SIGINT',
  options: {
    ...configOption,
    'log-level': { value: 'LEVEL', default: 'info', text: `what is logged: ${logLevels.join(', ')}` },
    ...jsonOption
  },
  notes: `
SIGTERM, SIGINT  ends it: it serves on for limits.lame_duck, then what is under way may finish within
                 limits.drain_timeout; a second signal does not wait
SIGUSR2          starts the next process and hands over to it, as sluice upgrade does
SIGHUP           reads the file again, as does saving it; a file with problems changes nothing
Once it is ready a line of JSON on standard output names the addresses ("message": "ready", "url", "admin_url"), and a
terminal gets words too, but not with --json. Standard output has lines of JSON alone; the log is on standard error, in
colours and words on a terminal (NO_COLOR turns colours off, --json both).`,
  async run({ config: file, 'log-level': wanted, json }) {
    const level = logLevels.find((one) => one === wanted)
    if (!level) throw new UsageError(`--log-level is ${JSON.stringify(wanted)}${suggestion(wanted, logLevels)}`)
    const log = createLogger({ level, pretty: process.stderr.isTTY && !json })
    let code: number = exits.failed
    try {
      return (code = await serve(file, log, process.stderr.isTTY && !json))
    } finally {
      await log.flush()
      // A standard stream that accepts nothing must not keep the gateway from ending.
      leave(code)
    }
  }
})

async function serve(file: string, log: Logger, words: boolean): Promise<number> {
  // Imported here, so that the other commands start in half the time.
  const { startGateway } = await import('../container.ts')
  const sockets = inheritedSockets()
  // Until the gateway has started there is nothing to drain, so signals and faults just end the process.
  const gateway = await startGateway({
    config: file,
    log,
    sockets,
    predecessor: Predecessor.find(),
    command: [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  })
  tellServiceManager({ READY: '1', MAINPID: String(process.pid) }, log)
  const stops = new Stops(log)
  announce(gateway, log, words)
  const watch = watchConfig({ files: () => gateway.files, onChange: () => void gateway.reload('file changed') })
  process.on('SIGHUP', () => void gateway.reload('SIGHUP'))
  process.on('SIGUSR2', () => void gateway.upgrade('SIGUSR2'))
  const reason = await Promise.race([stops.first, gateway.replaced.then(() => undefined)])
  watch.close()
  if (reason !== undefined || gateway.stranded) {
    log.info('the gateway stops', { reason: reason ?? 'an upgrade failed' })
    tellServiceManager({ STOPPING: '1' }, log)
  }
  return stop(gateway, stops, reason === undefined ? stops.first : stops.second, log)
}

/**
 * Announces that the gateway is ready: a line of JSON on standard output, where everything is one, and with `words`
 * some on standard error.
 */
function announce({ url, adminUrl, config, generation }: Gateway, log: Logger, words: boolean): void {
  const localOnly = config.settings.admin?.token === ''
  const trial = trialOf(url, config)
  if (trial !== undefined) log.warn('the demo key is in use: everybody knows it')
  const { hash, warnings } = config
  for (const { place, message } of warnings) log.info(`${place} ${message}`)
  const ready = {
    time: new Date().toISOString(),
    message: 'ready',
    url,
    admin_url: adminUrl ?? null,
    admin_local: localOnly,
    config: hash,
    generation,
    workers: config.settings.workers,
    pid: process.pid,
    try: trial
  }
  process.stdout.write(`${JSON.stringify(ready)}\n`)
  if (!words) return
  const note = localOnly ? ', loopback only: admin.token is empty' : ''
  process.stderr.write(`sluice is ready: ${url}${adminUrl === undefined ? '' : ` (admin ${adminUrl}${note})`}\n`)
  if (trial !== undefined) process.stderr.write(`try: ${trial}\n`)
}

/** Makes a command that sends a request to a simulated model with the demo key, when the file has both. */
function trialOf(url: string, { keys, models, simulated }: Gateway['config']): string | undefined {
  const demo = createHash('sha256').update(demoKey).digest()
  const model = [...models.values()].find(({ channels }) => channels.some(({ name }) => simulated.includes(name)))
  if (!model || !keys.some(({ sha256 }) => sha256.equals(demo))) return undefined
  const body = JSON.stringify({ model: model.name, messages: [{ role: 'user', content: 'Hello' }] })
  return `curl ${url}${chatPath} -H 'Authorization: Bearer ${demoKey}' -H 'Content-Type: application/json' -d '${body}'`
}

/**
 * Drains and closes the gateway. When `hurry` resolves, at a further signal, it closes at once; the store is closed
 * properly in both cases.
 */
async function stop(gateway: Gateway, stops: Stops, hurry: Promise<string>, log: Logger): Promise<number> {
  // After a fault, something may never end.
  const giveUp = (): void => {
    log.error('the gateway could not be closed in time: the next start mends its books')
    leaveNow(exits.failed)
  }
  const { lameDuck, drainTimeout } = gateway.config.settings.limits
  // What was passed on to the next process has its drain_timeout after that of this one.
  let deadline = setTimeout(giveUp, lameDuck + 2 * drainTimeout + farewellMs)
  let hurried = false
  let closed = false
  void hurry.then((reason) => {
    if (closed) return
    hurried = true
    clearTimeout(deadline)
    deadline = setTimeout(giveUp, farewellMs)
    log.warn('the gateway stops at once', { reason })
    void gateway.close()
  })
  const { cut } = await gateway.close({ drain: true })
  closed = true
  clearTimeout(deadline)
  log.info('the gateway has stopped', { cut, generation: gateway.generation })
  // So that whoever watches the gateway starts it anew.
  if (stops.fault || gateway.stranded) return exits.failed
  return hurried ? exits.interrupted : exits.ok
}

/** Collects the reasons to stop: signals, and uncaught faults. There is one per process. */
class Stops {
  /** Resolve with the first reason, and with the first signal after it. */
  readonly first: Promise<string>
  readonly second: Promise<string>
  /** Whether a fault was among the reasons. */
  fault = false

  constructor(log: Logger) {
    const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()]
    this.first = first.promise
    this.second = second.promise
    let stopping = false
    const stop = (reason: string): void => {
      if (stopping) second.resolve(reason)
      stopping = true
      first.resolve(reason)
    }
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop(signal))
    process.off('uncaughtException', fall)
    // Unhandled rejections arrive here too.
    process.on('uncaughtException', (error, origin) => {
      log.error('a fault that nothing caught: the gateway stops', { origin, error: thrownStack(error) })
      this.fault = true
      stopping = true
      first.resolve(origin)
    })
  }
}
