// The stores that the core and plugins use. Each is an interface with a built-in implementation.
import type { Answers } from './answers.ts'
import type { Cache } from './cache.ts'
import type { Claims } from './claims.ts'
import type { Documents } from './documents.ts'
import type { Ledger } from './ledger.ts'
import type { Limits } from './limits.ts'
import type { RequestLog } from './requests.ts'
import type { Routes } from './routes.ts'
import type { Secrets } from './secrets.ts'
import type { Vault } from './vault.ts'
import type { Works } from './works.ts'

/** The stores of the process. They stay open over reloads of the configuration; the container opens and closes them. */
export interface Services {
  readonly documents: Documents
  readonly ledger: Ledger
  readonly limits: Limits
  readonly secrets: Secrets
  readonly requests: RequestLog
  readonly answers: Answers
  readonly claims: Claims
  readonly routes: Routes
  readonly works: Works
  readonly vault: Vault
  readonly cache: Cache
}
