// Tells by the head of an upstream's answer what its body is.
import type { AnswerKind } from '../../contract/operation.ts'
import { GatewayError } from '../../errors.ts'
import type { UpstreamHeaders } from '../../transport/transport.ts'
import { isJson } from '../../wire/media-type.ts'
import { BodyIntake, BytesIntake, ErrorIntake, EventIntake } from './intake.ts'
import type { Intake, IntakeHost } from './intake.ts'

/** What the operation says of its answers. */
export interface AnswerShape {
  /** What the upstream may answer with, beside events. */
  answers: readonly AnswerKind[] | undefined
  /** See `Operation.media`. */
  media: RegExp | undefined
}

/**
 * The intake for the body that follows this head.
 * @throws GatewayError `upstream_bad_response` when it is of a type that the operation does not take
 */
export function intakeFor(
  host: IntakeHost,
  status: number,
  headers: UpstreamHeaders,
  { answers, media }: AnswerShape
): Intake {
  if (status < 200 || status > 299) return new ErrorIntake(host, status, headers)
  const type = headers['content-type']
  const { framing } = host.attempt.protocol
  if (framing && typeof type === 'string' && type.toLowerCase().startsWith(framing.mediaType))
    return new EventIntake(host, framing)
  if (type === undefined ? host.streaming : type !== 'application/json' && isEvents(String(type), host.streaming))
    return new EventIntake(host)
  if (type === undefined || !answers?.includes('bytes') || isJson(String(type))) return new BodyIntake(host)
  if (media?.test(String(type)) === false)
    throw new GatewayError('upstream_bad_response', 'The upstream sent something else than what was asked for.')
  return new BytesIntake(host)
}

/** Whether a media type is that of events. One that is empty says nothing. */
function isEvents(type: string, asked: boolean): boolean {
  const essence = type.trim().toLowerCase()
  return essence === '' ? asked : essence.startsWith('text/event-stream')
}
