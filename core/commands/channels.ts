// The commands `sluice channels`: see how channels are doing, switch them, and try them.
import { accessOptions, allOf, gatewayNote, withGateway } from './asking/admin-access.ts'
import { defineCommand, exits, jsonOption, UsageError } from './command/command.ts'
import { Progress } from './output/progress.ts'
import { renderTable } from './output/table.ts'

const path = '/admin/v1/channels'
const pathOf = (name: string): string => `${path}/${encodeURIComponent(name)}`

/** A channel as the admin API shows it, as far as commands use it. */
interface ShownChannel {
  name: string
  protocol: string
  state: string
  credential_expires: string | null
  switched: { file: string; operator: string; since: string | null; by: string | null }
  health: {
    reason: string | null
    until: string | null
    recent: number
    error_rate: number | null
    first_event_ms: { p50: number; p95: number } | null
    tokens_per_second: number | null
  } | null
}

/** The answer to a test, as far as commands use it. */
export interface Tried {
  results: {
    /** In the check of a file, which tries all of them. */
    channel?: string
    endpoint: string
    model: string
    ok: boolean
    status: number | null
    error: { code: string; said: string } | null
    first_byte_ms: number | null
    duration_ms: number
    cost_usd: string | null
  }[]
}

export const listChannels = defineCommand({
  name: 'channels list',
  summary: 'lists the channels with how they are doing',
  options: { ...accessOptions, ...jsonOption },
  notes: `Figures are of the last five minutes.${gatewayNote}`,
  run: async (options) =>
    withGateway(options, async (admin) => {
      const channels = await allOf<ShownChannel>(admin, path)
      process.stdout.write(`${options.json ? JSON.stringify({ data: channels }) : table(channels)}\n`)
      return exits.ok
    })
})

const settings = { on: {}, drain: { drain: true }, off: { enabled: false } } as const

export const switchChannel = defineCommand({
  name: 'channels switch',
  summary: 'switches a channel on or off, or lets it drain',
  operands: ['NAME', 'on|drain|off'],
  options: { ...accessOptions, ...jsonOption },
  notes: `
off: no request of a client is sent there. drain: nothing new is; what its account keeps (responses that
go on, tasks, files) can still be reached. on: undoes both. It holds until it is undone, over restarts
too. What gateway.yaml switches is switched back there.${gatewayNote}`,
  run: async (options, [name, to]) => {
    if (!Object.hasOwn(settings, to!)) throw new UsageError(`${JSON.stringify(to)} is none of on, drain and off`)
    return withGateway(options, async (admin) => {
      const channel = await admin.call<ShownChannel>('PATCH', pathOf(name!), settings[to as keyof typeof settings])
      if (options.json) process.stdout.write(`${JSON.stringify(channel)}\n`)
      const { file, operator } = channel.switched
      const still = operator === 'on' && file !== 'on' ? `, and still ${file} in the file` : ''
      process.stderr.write(`${name} is ${operator === 'on' ? 'on' : operator}${still}, in ${admin.where}.\n`)
      return exits.ok
    })
  }
})

export const testChannel = defineCommand({
  name: 'channels test',
  summary: 'sends a channel small real requests, and says what came of them',
  operands: ['NAME', '[MODEL]'],
  options: {
    endpoint: { value: 'NAME', text: 'the endpoint to try, instead of the one that the model looks to be for' },
    ...accessOptions,
    ...jsonOption
  },
  notes: `
Without MODEL one request for each endpoint that the models of the channel look to be for. The upstream
may bill them; no key is charged, and they are in no log. Also tries a channel that is switched off.
Eight tests may be under way at a time. Exits with 3 when one of them failed.${gatewayNote}`,
  run: async (options, [name, model]) => {
    const asked = { model, endpoint: options.endpoint }
    return withGateway(options, async (admin) => {
      const tried = await Progress.of('waiting for what the channel answers', () =>
        admin.call<Tried>('POST', `${pathOf(name!)}/test`, asked, testPatience)
      )
      process.stdout.write(`${options.json ? JSON.stringify(tried) : results(tried)}\n`)
      return tried.results.every(({ ok }) => ok) ? exits.ok : exits.found
    })
  }
})

/** Milliseconds that a test may take: a model may think before it says a word. */
const testPatience = 300_000

function table(channels: readonly ShownChannel[]): string {
  const rows = channels.map(({ name, protocol, state, switched, health, credential_expires: expires }) => [
    name,
    protocol,
    state,
    figure(health?.recent),
    figure(health?.error_rate === null || health?.error_rate === undefined ? undefined : health.error_rate * 100, ' %'),
    figure(health?.first_event_ms?.p50, ' ms'),
    figure(health?.first_event_ms?.p95, ' ms'),
    figure(health?.tokens_per_second ?? undefined),
    expires?.slice(0, 10) ?? '-',
    health?.reason ?? (switched.by === null ? '-' : `by ${switched.by} since ${switched.since}`)
  ])
  return renderTable([
    ['NAME', 'PROTOCOL', 'STATE', 'ATTEMPTS', 'FAILED', 'P50', 'P95', 'TOKENS/S', 'CREDENTIAL ENDS', 'WHY'],
    ...rows
  ])
}

/** Renders what came of requests to channels. */
export function results({ results }: Tried): string {
  const rows = results.map(({ channel, endpoint, model, ok, status, error, first_byte_ms, duration_ms, cost_usd }) => [
    ...(channel === undefined ? [] : [channel]),
    endpoint,
    model,
    ok ? 'ok' : 'failed',
    figure(status ?? undefined),
    figure(first_byte_ms ?? undefined, ' ms'),
    figure(duration_ms, ' ms'),
    cost_usd === null ? '-' : `${cost_usd} USD`,
    error ? `${error.code}: ${error.said}` : '-'
  ])
  const head = ['ENDPOINT', 'MODEL', 'RESULT', 'STATUS', 'FIRST', 'ALL', 'COST', 'WHY']
  return renderTable([results[0]?.channel === undefined ? head : ['CHANNEL', ...head], ...rows])
}

function figure(value: number | undefined, unit = ''): string {
  return value === undefined ? '-' : `${Math.round(value * 10) / 10}${unit}`
}
