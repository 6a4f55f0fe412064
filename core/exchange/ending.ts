// How an exchange ends: its outcome for plugins and records, and the last bytes or error for its client.
import type { Outcome, WholeReply } from '../contract/contract.ts'
import { clientClosed, GatewayError, reasons } from '../errors.ts'
import type { LiveExchange } from './state/exchange.ts'
import { Relay } from './answers/relay.ts'
import { sendError, sendErrorEvent, sendHead, sendReply, sendWhole, statusFor } from './replies.ts'
import { Session } from './sessions/session.ts'

/** The result of an exchange before it is settled: an answer still to be sent or finished, or an error. */
export type Ending = WholeReply | Relay | Session | GatewayError

/** The outcome of an exchange that ends like this. Plugins and records get it. */
export function outcomeOf(exchange: LiveExchange, ending: Ending): Outcome {
  const { relay, session } = exchange
  const error = ending instanceof GatewayError ? ending : ending instanceof Session ? ending.error : undefined
  const leftEarly = exchange.gone || error?.code === 'client_closed' || error?.code === 'client_stalled'
  const kind = leftEarly
    ? 'aborted'
    : !error
      ? 'completed'
      : exchange.attempts.length === 0 && !relay
        ? 'rejected'
        : 'failed'
  const sent = session
    ? 101
    : ending instanceof GatewayError || ending instanceof Relay || ending instanceof Session
      ? relay?.response?.status
      : ending.status
  const status = exchange.client.headSent ? sent! : leftEarly ? 499 : error ? statusFor(exchange, error) : sent!
  if (error?.code === 'internal_error' || error?.code === 'answer_not_inspected') {
    exchange.complain('an exchange failed inside the gateway', { error: reasons(error.cause) })
  }
  // A whole answer is settled in the turn in which it ended.
  const now = ending instanceof Relay || ending instanceof Session ? ending.attempt.endedAt! : performance.now()
  // The end of a complete answer is sent after the settlement, and counts already.
  const due = kind === 'completed' && relay ? relay.outlet.waiting : 0
  const firstByteAt = relay?.outlet.firstByteAt ?? session?.attempt.firstByteAt ?? (due > 0 ? now : undefined)
  return {
    kind,
    status,
    error: error ?? (leftEarly ? clientClosed() : undefined),
    bytes: (session?.bytes ?? relay?.outlet.bytes ?? 0) + due,
    firstByteMs: firstByteAt === undefined ? undefined : firstByteAt - exchange.startedAt,
    durationMs: now - exchange.startedAt
  }
}

/** Sends the answer, or the rest of it, after the settlement. The client gets nothing more afterwards. */
export function send(exchange: LiveExchange, ending: Ending): void {
  if (exchange.standIn?.tookOver) {
    if (ending instanceof Relay && !ending.whole && !exchange.client.headSent) sendHead(exchange, ending.response!)
    return exchange.standIn.finish(ending instanceof GatewayError ? ending : undefined)
  }
  if (exchange.session) return exchange.session.closeClient(ending instanceof GatewayError ? ending : undefined)
  if (ending instanceof GatewayError) return sendFailure(exchange, ending)
  if (ending instanceof Session) return
  if (!(ending instanceof Relay)) return sendReply(exchange, ending)
  if (ending.whole) return sendWhole(exchange, ending.response!, ending.takeRest())
  // A short stream may have ended before its head was due.
  if (!exchange.client.headSent) sendHead(exchange, ending.response!)
  exchange.client.end(ending.takeRest())
}

/** An error in the client's protocol: a reply, or when the head is out the stream's error event and no end marker. */
export function sendFailure(exchange: LiveExchange, error: GatewayError): void {
  const { client, standIn } = exchange
  if (standIn?.tookOver) standIn.finish(error)
  else if (exchange.gone || error.code === 'client_stalled') client.cut()
  else if (!client.headSent) sendError(exchange, error)
  else if (exchange.streaming) sendErrorEvent(exchange, error)
  else client.cut()
}
