// The parts of undici that are used. All of it takes five times as long to load, which happens while others are served.
import { createRequire } from 'node:module'
import type { Client as UndiciClient, Pool as UndiciPool } from 'undici'

const require = createRequire(import.meta.url)

/** One connection. */
export const Client = require('undici/lib/dispatcher/client.js') as typeof UndiciClient
/** As many connections to one origin as it takes. */
export const Pool = require('undici/lib/dispatcher/pool.js') as typeof UndiciPool
