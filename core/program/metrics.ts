// Metrics of the program itself: connections, exchanges, tasks and the store.
import type { BackgroundWork } from '../exchange/background/background.ts'
import type { Engine } from '../exchange/engine.ts'
import type { Metrics } from '../telling/metrics.ts'
import type { Server } from '../clients/server.ts'
import type { Store } from '../store/store.ts'
import type { Transport } from '../transport/transport.ts'

/** Registers metrics whose values are read at each scrape. Called once per gateway. */
export function observeProgram(parts: {
  metrics: Metrics
  server: Server
  engine: Engine
  background: BackgroundWork
  transport: Transport
  store: Store
}): void {
  const { metrics, server, engine, background, transport, store } = parts
  const figure = (name: string, help: string, read: () => number): void => metrics.observed({ name, help }, read)
  metrics.observed({ name: 'client_connections', help: 'Open connections from clients.', label: 'protocol' }, () =>
    Object.entries(server.figures.connections)
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
  figure('tasks_open', 'Tasks that have not ended.', () => store.works.running)
  figure(
    'tasks_waiting',
    'Of these, those that the gateway itself is at work on and that wait for their turn.',
    () => background.waiting
  )
  figure('upstream_connections', 'Open connections to upstreams.', () => transport.connections)
  figure('store_healthy', '1 while the store takes new work.', () => Number(store.health().healthy))
  figure('store_commits_total', 'Writes to the commit log.', () => store.health().commits)
  figure(
    'store_operations_total',
    'Operations committed; divided by commits it is the batch size.',
    () => store.health().operations
  )
  figure(
    'store_commit_seconds_total',
    'Time from handing a batch to the disk until it was there.',
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
  figure('store_dropped_records_total', 'Request records that were not kept.', () => store.health().droppedRecords)
}
