// Resolves the sections of gateway.yaml with settings: listeners, store, workers, limits, tasks and state.
import { resolve } from 'node:path'
import { isMap } from '../core/options/schema-check.ts'
import type { Limits, Settings } from '../core/catalogue/settings.ts'
import { checkOrigins, checkSignIn } from './sections/admin.ts'
import type { Certificates } from './sections/certificates.ts'
import { isLocal } from './channels/proxy.ts'
import type { Report } from './report.ts'
import type { File } from './shape.ts'
import { readPlace } from './sections/store-place.ts'
import { readWorkers } from './sections/workers.ts'
import type { Environment } from './files/variables.ts'

/** The variable with the origins whose pages may open realtime sessions from a browser, separated by commas. */
const originsVariable = 'REALTIME_ALLOWED_ORIGINS'

/** The least number of characters of a secret that cannot be guessed. */
const leastKey = 32
/** The least number of characters of an admin token when other machines can try tokens. */
const leastToken = 16

/** Resolves the settings. Undefined when a section is faulty. */
export function readSettings(
  file: File,
  certificates: Certificates,
  env: Environment,
  report: Report
): Settings | undefined {
  const sections = ['listen', 'admin', 'store', 'workers', 'limits', 'tasks', 'state'] as const
  if (!sections.every((section) => report.sound(section))) return undefined
  const {
    listen,
    admin,
    store,
    state,
    tasks: { base_url: baseUrl, ...tasks }
  } = file
  if (admin && admin.port === listen.port && listen.port !== 0) {
    report.value(['admin', 'port'], `${listen.port} is the port of "listen" too: choose another`)
  }
  if (admin && admin.token !== '' && admin.token.length < leastToken && !isLocal(admin.host))
    report.value(
      ['admin', 'token'],
      `has ${admin.token.length} characters: beyond loopback take at least ${leastToken}, as \`openssl rand -hex 32\` makes them`
    )
  if (admin) checkOrigins(admin.origins, report)
  if (admin && admin.oidc) checkSignIn(admin.oidc, admin.host, report)
  const kept = Object.entries(isMap(file.models) ? file.models : {}).find(
    ([, model]) => isMap(model) && model['state'] === 'gateway'
  )
  if (kept && state.key === '')
    report.key(
      ['models', kept[0], 'state'],
      'needs a secret to keep responses with: say "state: { key: ${SLUICE_STATE_KEY} }"'
    )
  else if (state.key !== '' && state.key.length < leastKey)
    report.value(
      ['state', 'key'],
      `has ${state.key.length} characters: take at least ${leastKey}, as \`openssl rand -hex 32\` makes them`
    )
  if (state.of_tenant < 4 * state.largest)
    report.value(
      ['state', 'of_tenant'],
      'must be at least four times as much as "largest", which is one conversation alone'
    )
  if (state.size < state.of_tenant) report.value(['state', 'size'], 'must not be less than "of_tenant"')
  const place = readPlace(store, certificates, report)
  if (!place) return undefined
  const tls = listen.tls && certificates.identity(['listen', 'tls'], listen.tls)
  return {
    listen: { host: listen.host, port: listen.port, tls, ...(listen.cors.length > 0 && { cors: listen.cors }) },
    admin: admin === false ? undefined : admin,
    store: {
      ...place,
      durability: store.durability,
      requests: store.requests,
      journal: store.journal,
      answers: store.answers,
      routes: store.routes,
      backups: store.backups && {
        ...store.backups,
        to: resolve(report.folder(['store', 'backups', 'to']), store.backups.to)
      }
    },
    workers: readWorkers(file.workers),
    limits: readLimits(file.limits, env),
    state,
    tasks: { ...tasks, baseUrl: baseUrl.replace(/\/+$/, '') }
  }
}

function readLimits(limits: File['limits'], env: Environment): Limits {
  return {
    jsonBody: limits.json_body,
    multipartBody: limits.multipart_body,
    bodyMemory: limits.body_memory,
    cacheMemory: limits.cache_memory,
    lameDuck: limits.lame_duck,
    drainTimeout: limits.drain_timeout,
    clientStall: limits.client_stall,
    clientHeader: limits.client_header,
    clientBody: limits.client_body,
    keepAlive: limits.keep_alive,
    connections: limits.connections,
    onDisconnect: limits.on_disconnect,
    disconnectDrain: limits.disconnect_drain,
    realtime: { ...limits.realtime, origins: originsOf(env[originsVariable]) },
    perTenant: limits.per_tenant
  }
}

function originsOf(list = ''): readonly string[] {
  return list
    .split(',')
    .map((origin) => origin.trim())
    .filter((origin) => origin !== '')
}
