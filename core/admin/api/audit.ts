// Who changes something by the admin API, and the entries of the audit log.
import { isDeepStrictEqual } from 'node:util'
import type { AuditEntry } from '../../store/documents.ts'
import type { Grant } from '../access/roles.ts'

/** Somebody who uses the admin API. */
export interface Actor extends Grant {
  /**
   * `token`: the token of gateway.yaml. `local`: a program of this machine without a token. `command`: a command.
   * `operator`: a token of an operator. `session`: somebody who signed in.
   * `gateway`: the gateway itself, which saw the file change or got a signal.
   * `unknown`: nobody who could be recognised.
   */
  readonly kind: 'token' | 'local' | 'command' | 'operator' | 'session' | 'gateway' | 'unknown'
  /**
   * What tells this actor from others of its kind: `admin.token`, the machine's user, the name of the operator, or the
   * issuer and subject of a session.
   */
  readonly id: string
  /** The address of the connection; null for a command that opened the store. */
  readonly address: string | null
  /** What a provider calls whoever signed in, for people: it identifies nobody. */
  readonly name?: string
  /** The hash of the id of the session. */
  readonly session?: string
  /** The id of the request, which its answer has in `X-Request-Id`; undefined for commands. */
  readonly requestId?: string
}

/** The thing that was changed. */
export interface Thing {
  readonly kind: string
  readonly id: string
  /** The tenant that may know of it; absent when it is for those alone who see the whole gateway. */
  readonly tenant?: string | null
}

/**
 * Makes an entry of the audit log. `before` and `after` are the thing as it is shown, without any secret; undefined
 * where there is none. Of two only the members that differ are kept.
 */
export function auditEntry(
  by: Actor,
  action: string,
  { kind, id, tenant = null }: Thing,
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
    actor_name: by.name ?? null,
    actor_role: by.role,
    actor_tenant: by.tenant,
    address: by.address,
    request_id: by.requestId ?? null,
    object_kind: kind,
    object: id,
    tenant,
    outcome: 'done',
    before: part(before),
    after: part(after)
  }
}

function memberOf(value: object, name: string): unknown {
  return (value as Record<string, unknown>)[name]
}
