// The command `sluice health`: asks a running gateway how it is, for containers and scripts that have no curl.
import { reachable } from './asking/remote-admin.ts'
import { addressOf, configOption, defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import { request } from '../wire/http.ts'

export const health = defineCommand({
  name: 'health',
  summary: 'says whether the gateway runs and takes new requests',
  options: {
    live: { text: 'only whether it runs: also while it stops, or cannot write' },
    timeout: { value: 'SECONDS', default: '5', text: 'how long to wait for the answer' },
    ...configOption,
    ...jsonOption
  },
  notes: `
Asks /readyz of the admin listener, or /livez with --live; neither needs a token. Exits with 0 when the answer is yes,
and with 1 when it is no, late or missing. For the HEALTHCHECK of a container, and for scripts.`,
  async run({ live, timeout, json, ...options }) {
    if (!/^\d{1,4}$/.test(timeout) || timeout === '0')
      throw new UsageError(`--timeout is ${JSON.stringify(timeout)}: it must be a number of seconds from 1 to 9999`)
    const { admin } = (await addressOf(options)).settings
    if (!admin || admin.port === 0)
      throw new Error('The configuration has no admin.port at which the gateway could be asked.')
    const url = `http://${reachable(admin.host)}:${admin.port}${live ? '/livez' : '/readyz'}`
    const { status, body } = await ask(url, Number(timeout) * 1000)
    const { status: state, reasons = [] } = readAnswer(body)
    process.stdout.write(`${json ? JSON.stringify({ url, status: state, reasons }) : [state, ...reasons].join('\n')}\n`)
    return status === 200 ? exits.ok : exits.failed
  }
})

/**
 * Sends a GET. `node:http` is used, as `fetch` would double the time that the command takes.
 * @throws Error when there is no whole answer in time
 */
function ask(url: string, patienceMs: number): Promise<{ status: number; body: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>()
  const signal = AbortSignal.timeout(patienceMs)
  const fail = (error: Error): void =>
    reject(
      new Error(
        `${url} ${signal.aborted ? `did not answer in ${patienceMs / 1000} s` : `does not answer: ${error.message}`}`
      )
    )
  const sent = request(url, { agent: false, signal }, (reply) => {
    let body = ''
    reply.setEncoding('utf8')
    reply.on('data', (text: string) => (body += text))
    reply.on('error', fail)
    reply.on('end', () => resolve({ status: reply.statusCode!, body }))
  })
  sent.on('error', fail)
  sent.end()
  return promise
}

/** What a gateway says of itself; another program in its place may say anything. */
function readAnswer(body: string): { status: string; reasons?: string[] } {
  try {
    const answer: unknown = JSON.parse(body)
    if (typeof answer === 'object' && answer !== null && 'status' in answer && typeof answer.status === 'string')
      return answer as { status: string; reasons?: string[] }
  } catch {
    // It is no JSON.
  }
  throw new Error(`what answers at the admin address is no gateway: it said ${JSON.stringify(body.slice(0, 100))}`)
}
