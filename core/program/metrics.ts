// Metrics of the program itself: connections, exchanges, tasks and the store.
import { statfsSync } from 'node:fs'
import { folderOf } from '../catalogue/store-place.ts'
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { Engine } from '../exchange/engine.ts'
import type { Metrics } from '../telling/metrics.ts'
import type { LimitLeft } from '../contract/contract.ts'
import { observeCredentials } from '../credentials/credentials.ts'
import type { Credentials } from '../credentials/credentials.ts'
import type { Server } from '../clients/server.ts'
import type { Store } from '../store/store.ts'
import { expiriesOf } from './expiries.ts'
import type { Generations } from './generation.ts'
import type { Transport } from '../transport/transport.ts'

/** What is the same for all threads of a gateway. */
interface GatewayParts {
  /** The number of the process in the row of those that took each other's place. */
  generation: number
  metrics: Metrics
  store: Store
  generations: Pick<Generations, 'current'>
  credentials: Credentials
}

/** What each thread with an engine has of its own. */
interface ThreadParts {
  metrics: Metrics
  server: Pick<Server, 'figures'>
  engine: Pick<Engine, 'running'>
  background: Pick<BackgroundWork, 'waiting'>
  transport: Transport
  store: Pick<Store, 'health'>
  generations: Pick<Generations, 'current'>
}

/** Registers metrics of the gateway whose values are read at each scrape. Called once per gateway. */
export function observeGateway({ generation, metrics, store, generations, credentials }: GatewayParts): void {
  observeCredentials(credentials, metrics)
  const figure = (name: string, help: string, read: () => number): void => metrics.observed({ name, help }, read)
  metrics.observed(
    {
      name: 'certificate_expiry_timestamp_seconds',
      help: 'When the first certificate of a chain in the file expires.',
      labels: ['use', 'channel']
    },
    () => expiriesOf(generations.current.config)
  )
  metrics.observed({ name: 'store_disk_free_bytes', help: 'Room left for the gateway on the disk of the store.' }, () =>
    freeBytes(folderOf(generations.current.config.settings.store))
  )
  figure('tasks_open', 'Tasks that have not ended.', () => store.works.running)
  figure(
    'process_generation',
    'How many processes have served here in a row, without a stop between them.',
    () => generation
  )
  figure('store_healthy', '1 while the store takes new work.', () => Number(store.health().healthy))
  metrics.observed(
    { name: 'store_trouble', help: '1 for each trouble that the store has now.', labels: ['trouble'] },
    () => store.health().troubles.map(({ ailment }) => [{ trouble: ailment }, 1] as const)
  )
  metrics.observed(
    { name: 'store_nodes', help: 'Gateways that share the store, as last seen. Absent for one alone.' },
    () => (store.nodes().length > 0 ? [[{}, store.nodes().length] as const] : [])
  )
  figure(
    'store_commits_total',
    'Writes to the commit log, or batches of money in PostgreSQL.',
    () => store.health().commits
  )
  figure(
    'store_operations_total',
    'Operations committed; divided by commits it is the batch size.',
    () => store.health().operations
  )
  figure(
    'store_commit_seconds_total',
    'Time from handing a batch to the disk, or to PostgreSQL, until it was there.',
    () => store.health().commitSeconds
  )
  figure('store_queued_operations', 'Operations not yet on disk.', () => store.health().queued)
  figure(
    'store_unapplied_bytes',
    'Bytes in the commit log that are not in the database yet.',
    () => store.health().unappliedBytes
  )
  figure('store_apply_seconds_total', 'Time spent in transactions of the database.', () => store.health().applySeconds)
  figure('store_failures_total', 'Writes to the commit log or the database that failed.', () => store.health().failures)
}

/** Registers metrics of one thread whose values are read at each scrape. Called once for each that serves clients. */
export function observeThread(parts: ThreadParts): void {
  const { metrics, server, engine, background, transport, store, generations } = parts
  const figure = (name: string, help: string, read: () => number): void => metrics.observed({ name, help }, read)
  metrics.observed({ name: 'client_connections', help: 'Open connections from clients.', labels: ['protocol'] }, () =>
    Object.entries(server.figures.connections).map(([protocol, count]) => [{ protocol }, count] as const)
  )
  metrics.observed(
    {
      name: 'channel_state',
      help: '1 for the state that a channel is in, 0 for the others.',
      labels: ['channel', 'state'],
      aggregator: 'max'
    },
    () => statesOf(generations.current)
  )
  metrics.observed(
    {
      name: 'credential_state',
      help: '1 for the state that one of several credentials of a channel is in, 0 for the others.',
      labels: ['channel', 'credential', 'state'],
      aggregator: 'max'
    },
    () => credentialStatesOf(generations.current)
  )
  metrics.observed(
    {
      name: 'channel_left_ratio',
      help: 'The share that is left of the limits of a channel or of one of its credentials, the smallest of a kind.',
      labels: ['channel', 'credential', 'limit'],
      aggregator: 'min'
    },
    () => sharesOf(generations.current)
  )
  figure(
    'refused_connections_total',
    'Connections closed at once for want of room.',
    () => server.figures.refusedConnections
  )
  figure(
    'refused_requests_total',
    'Requests refused before an exchange began: malformed or ambiguous.',
    () => server.figures.refusedRequests
  )
  figure('exchanges_running', 'Exchanges that have begun and not been settled.', () => engine.running)
  figure(
    'tasks_waiting',
    'Of these, those that the gateway itself is at work on and that wait for their turn.',
    () => background.waiting
  )
  figure('upstream_connections', 'Open connections to upstreams.', () => transport.connections)
  figure('store_dropped_records_total', 'Request records that were not kept.', () => store.health().droppedRecords)
}

/** No sample when the operating system does not say it. */
function freeBytes(folder: string): number | [] {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  } catch {
    return []
  }
}

const healthStates = ['healthy', 'cooling', 'ejected', 'probing'] as const

/** The state of each credential of the channels that have several. */
function credentialStatesOf({
  chain
}: Generations['current']): [{ channel: string; credential: string; state: string }, number][] {
  return Object.entries(chain.reportHealth()).flatMap(([channel, { credentials = [] }]) =>
    credentials.flatMap(({ name, state: present }) =>
      healthStates.map((state): ReturnType<typeof credentialStatesOf>[number] => [
        { channel, credential: name, state },
        Number(state === present)
      ])
    )
  )
}

/** What is left, for limits that are known. Without a credential's name: of the channel. */
function sharesOf({
  chain
}: Generations['current']): [{ channel: string; credential: string; limit: string }, number][] {
  const found: ReturnType<typeof sharesOf> = []
  const add = (channel: string, credential: string, limits: readonly LimitLeft[]): void => {
    const least = new Map<string, number>()
    for (const { of, limit, left } of limits)
      if (limit !== null && limit > 0) least.set(of, Math.min(least.get(of) ?? 1, left / limit))
    for (const [limit, share] of least) found.push([{ channel, credential, limit }, share])
  }
  for (const [channel, { limits = [], credentials = [] }] of Object.entries(chain.reportHealth())) {
    add(channel, '', limits)
    for (const one of credentials) add(channel, one.name, one.limits)
  }
  return found
}

const states = ['healthy', 'cooling', 'ejected', 'probing', 'draining', 'off'] as const

/** The state of each channel: what it was switched to, otherwise its health. */
function statesOf({ catalogue, chain }: Generations['current']): [{ channel: string; state: string }, number][] {
  const health = chain.reportHealth()
  return Array.from(catalogue.channels.values()).flatMap((channel) => {
    const present = catalogue.switched.get(channel) ?? health[channel.name]?.state ?? 'healthy'
    return states.map((state): [{ channel: string; state: string }, number] => [
      { channel: channel.name, state },
      Number(state === present)
    ])
  })
}
