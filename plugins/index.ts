// The list of shipped plugins, which `chain:` in gateway.yaml can name.
import type { Plugin } from '../core/contract/contract.ts'
import auth from './auth/index.ts'
import idempotency from './idempotency/index.ts'
import log from './log/index.ts'
import protocolTranslate from './protocol-translate/index.ts'
import quota from './quota/index.ts'
import ratelimit from './ratelimit/index.ts'
import route from './route/index.ts'
import usageMeter from './usage-meter/index.ts'

const list: readonly Plugin[] = [auth, idempotency, quota, ratelimit, route, protocolTranslate, usageMeter, log]

/** All shipped plugins by name, in the order of the default chain. */
export const plugins: ReadonlyMap<string, Plugin> = new Map(list.map((plugin) => [plugin.name, plugin]))
