// Operators as the store keeps them, with the hashes of their tokens.
import { documentKind } from '../../store/documents.ts'
import type { Role } from './roles.ts'

/** One token of an operator. Times are Unix milliseconds. */
export interface StoredToken {
  /** SHA-256 in hexadecimal. */
  readonly sha256: string
  /** First and last characters, for people to recognise it. */
  readonly hint: string
  readonly created: number
  /** It is refused from then on. */
  readonly expires: number
  /** What the caller of the rotation that made it called that rotation. */
  readonly rotation?: string
}

/** A person or program that may use the admin API by tokens of its own. */
export interface StoredOperator {
  readonly name: string
  readonly settings: {
    readonly role: Role
    readonly tenant?: string | undefined
    readonly enabled?: boolean | undefined
  }
  /** The newest first. */
  readonly tokens: readonly StoredToken[]
  readonly created: number
  readonly changed?: number
  /** Revoked for good, and its name stays taken: the audit log goes by it. */
  readonly revoked?: number
}

/** The documents of operators; their ids are the names. */
export const operatorDocuments = documentKind<StoredOperator>('operator')

/** When tokens of an operator were last used, by their hashes. Written now and then, and not audited. */
export type TokenUses = Readonly<Record<string, number>>

/** The documents of uses; their ids are the names of operators. */
export const useDocuments = documentKind<TokenUses>('operator_use')
