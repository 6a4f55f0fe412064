// The parts of undici that are used. Loading all of undici would take five times as long, while requests wait.
import { createRequire } from 'node:module'
import type { Client as UndiciClient, Pool as UndiciPool } from 'undici'

const require = createRequire(import.meta.url)

/** A client for one connection. */
export const Client = require('undici/lib/dispatcher/client.js') as typeof UndiciClient
/** A pool of as many connections to one origin as are needed. */
export const Pool = require('undici/lib/dispatcher/pool.js') as typeof UndiciPool
