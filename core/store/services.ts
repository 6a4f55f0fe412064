// What the stores offer to the core and to plugins; each has an embedded implementation, later a distributed one.
import type { Answers } from './answers.ts'
import type { Cache } from './cache.ts'
import type { Ledger } from './ledger.ts'
import type { KeyStore } from './keys.ts'
import type { Limits } from './limits.ts'
import type { RequestLog } from './requests.ts'
import type { Routes } from './routes.ts'
import type { Secrets } from './secrets.ts'
import type { Vault } from './vault.ts'
import type { Works } from './works.ts'

/** The process's stores. They outlive generations; the container opens and closes them. */
export interface Services {
  readonly keys: KeyStore
  readonly ledger: Ledger
  readonly limits: Limits
  readonly secrets: Secrets
  readonly requests: RequestLog
  readonly answers: Answers
  readonly routes: Routes
  readonly works: Works
  readonly vault: Vault
  readonly cache: Cache
}
