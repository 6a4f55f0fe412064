// What work is when it begins.
import { randomBytes } from 'node:crypto'
import { accountOf } from '../../catalogue/account.ts'
import type { NewWork } from '../../contract/background.ts'
import type { Exchange } from '../../contract/contract.ts'
import { ownerOf } from '../../contract/owner.ts'
import { prompt } from '../../contract/slots.ts'
import type { Work } from '../../store/works.ts'
import { steadyNow } from '../../watchdog/steady-time.ts'

/**
 * Work of the caller of an exchange, under an id that nobody can guess unless its upstream has made one. `deadline`:
 * milliseconds from the request on.
 */
export function newWork(
  exchange: Exchange,
  { id = `task_${randomBytes(24).toString('base64url')}`, kind, status, channel, upstreamId, details, keep }: NewWork,
  deadline: number
): Work {
  const created = exchange.receivedAt
  return {
    id,
    kind,
    ...ownerOf(exchange),
    requestId: exchange.id,
    model: exchange.model,
    channel: channel?.name ?? null,
    account: channel ? accountOf(channel) : '',
    upstreamId,
    status,
    progress: 0,
    created,
    updated: created,
    ended: null,
    deadline: steadyNow() + deadline,
    expires: null,
    error: null,
    usage: null,
    details,
    record: null,
    // What the gateway makes by itself is settled by its exchange.
    prompt: channel ? exchange.find(prompt)?.() : undefined,
    ...(keep !== undefined && { keep })
  }
}
