// Who changes something by the admin API, and the entries of the audit log.
import { isDeepStrictEqual } from 'node:util'
import type { AuditEntry } from '../store/documents.ts'

/** Somebody who uses the admin API. */
export interface Actor {
  /** `token`: the token of gateway.yaml. `local`: a program of this machine without a token. `command`: a command. */
  readonly kind: 'token' | 'local' | 'command'
  /** What tells this actor from others of its kind: `admin.token`, or the name of the machine's user. */
  readonly id: string
  /** The address of the connection; null for a command that opened the store. */
  readonly address: string | null
}

/** The thing that was changed. */
export interface Thing {
  readonly kind: string
  readonly id: string
}

/**
 * Makes an entry of the audit log. `before` and `after` are the thing as it is shown, without any secret; undefined
 * where there is none. Of two only the members that differ are kept.
 */
export function auditEntry(
  by: Actor,
  action: string,
  { kind, id }: Thing,
  before: object | undefined,
  after: object | undefined
): AuditEntry {
  const differs = (name: string): boolean =>
    !before || !after || !isDeepStrictEqual(memberOf(before, name), memberOf(after, name))
  const part = (shown: object | undefined): object | null =>
    shown ? Object.fromEntries(Object.entries(shown).filter(([name]) => differs(name))) : null
  return {
    action,
    actor_kind: by.kind,
    actor: by.id,
    address: by.address,
    object_kind: kind,
    object: id,
    before: part(before),
    after: part(after)
  }
}

function memberOf(value: object, name: string): unknown {
  return (value as Record<string, unknown>)[name]
}
