// Opens sessions: an upstream that takes one, then the client's side.
import { GatewayError } from '../../errors.ts'
import type { SocketOffer } from '../../clients/client.ts'
import { FrameSocket } from '../../wire/frame-socket.ts'
import { tryChannels } from '../attempts/attempts.ts'
import type { AttemptParts, AttemptSetting } from '../attempts/attempts.ts'
import type { LiveExchange } from '../state/exchange.ts'
import { Session } from './session.ts'
import { dismiss } from '../answers/stages.ts'
import type { PluginStage } from '../answers/stages.ts'
import { stagesOf } from '../attempts/staging.ts'
import { errorFromResponse } from '../failures/upstream-error.ts'
import { socketHeadersOf } from '../attempts/upstream-head.ts'

/**
 * Opens a session: an upstream accepts it, its hold is on disk, and then the client's handshake is answered. Before
 * that the request can be refused like any other, and one channel is tried after the other.
 * @throws GatewayError as {@link tryChannels}
 */
export async function openSession(
  exchange: LiveExchange,
  offer: SocketOffer,
  setting: AttemptSetting,
  parts: AttemptParts
): Promise<Session> {
  const { chain, catalogue } = setting
  const { operation } = exchange.request
  const { message: maxMessage } = exchange.limits.realtime
  return tryChannels(
    exchange,
    chain,
    { catalogue, services: parts.services, background: parts.background, memory: parts.memory },
    async (attempt) => {
      attempt.dispatched = true
      const answer = await parts.transport
        .connect(attempt.channel, {
          path: attempt.path,
          headers: socketHeadersOf(exchange, attempt),
          maxMessage,
          signal: exchange.signal
        })
        .catch((error: unknown) => Promise.reject(exchange.over ?? (error as Error)))
      attempt.headAt = performance.now()
      if (!(answer instanceof FrameSocket)) {
        attempt.status = answer.status
        attempt.answered = answer.headers
        throw errorFromResponse(attempt, answer.status, answer.headers, answer.body)
      }
      attempt.status = 101
      let stages: readonly PluginStage[] = []
      try {
        stages = await stagesOf(exchange, chain.onResponse, {
          attempt,
          status: 101,
          headers: {},
          streaming: true,
          frames: true
        })
        const session = new Session({
          exchange,
          attempt,
          upstream: answer,
          stages,
          onTurn: chain.onTurn,
          watchdog: parts.watchdog,
          memory: parts.memory
        })
        await Promise.all(exchange.awaited)
        if (exchange.over) throw exchange.over
        const subprotocol = offer.subprotocols.find((name) => name === operation.subprotocol)
        session.open(offer.accept(exchange.replyHeaders, subprotocol, maxMessage))
        exchange.committed()
        exchange.session = session
        return session
      } catch (error) {
        answer.destroy()
        dismiss(stages)
        throw error
      }
    }
  )
}

/** Why a WebSocket cannot be opened for a request, before anybody is asked; undefined when it can. */
export function socketRefusal(
  { request, limits }: LiveExchange,
  offer: SocketOffer | undefined
): GatewayError | undefined {
  const { origin } = request.headers
  if (request.operation.body !== 'socket')
    return offer && new GatewayError('route_not_found', 'There is no WebSocket here.')
  if (!offer)
    return new GatewayError('upgrade_required', 'This endpoint is a WebSocket: connect with a WebSocket client.')
  // A page cannot change the origin that its browser sends. Clients that are no browsers send none.
  if (origin === undefined || limits.realtime.origins.includes(String(origin))) return undefined
  return new GatewayError('origin_not_allowed', 'Pages of this origin may not connect.', {
    reason: {
      by: 'origin',
      what: `pages of ${String(origin).slice(0, 200)} are not listed`,
      where: 'REALTIME_ALLOWED_ORIGINS',
      remedy: 'add the origin to the variable'
    }
  })
}
