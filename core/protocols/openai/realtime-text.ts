// Finds and edits text in realtime sessions: in events of a response, as in Responses, and in items of the
// conversation.
import { asObject, asText } from '../object.ts'
import { ResponseText } from '../openai-responses/text.ts'
import type { AnswerText, EditedEvent, Payload, ProtocolText, TextEditor, TextEvent } from '../protocol.ts'
import { Uninspectable } from '../text/uninspectable.ts'

type Fields = Record<string, unknown>

/**
 * https://platform.openai.com/docs/api-reference/realtime-server-events. The prompt of a session is in its client's
 * frames and not in a body; plugins see these with a stage that takes frames.
 */
export const realtimeText: ProtocolText = { answer: () => new SessionText(), prompt: () => {} }

/** Items are known by their ids, as each of a session's responses counts its items from zero. */
const byId = {
  of: (event: Fields): string => asText(event['item_id'] ?? asObject(event['item'])?.['id']),
  ofItem: (item: Fields, at: number): string => (typeof item['id'] === 'string' ? item['id'] : `#${at}`)
}

/** Edits what the model says in one session. */
class SessionText implements AnswerText {
  readonly #text = new ResponseText(byId)

  /** @throws Uninspectable for sound, unless the editor skips what is not text */
  event(frame: Payload, editor: TextEditor): EditedEvent | undefined {
    const body = asObject(frame.json()) as Fields | undefined
    const type = body?.['type']
    if (editor.skips !== true && (!body || type === 'response.output_audio.delta' || type === 'response.audio.delta'))
      throw new Uninspectable('sound of a session is none: a stage with `skip` lets it pass')
    if (!body || isSaidToModel(body)) return undefined
    const edited = this.#text.event(frame, editor)
    if (type === 'response.done') this.#forget(body)
    return edited
  }

  end(editor: TextEditor): readonly TextEvent[] {
    return this.#text.end(editor)
  }

  whole(): undefined {
    return undefined
  }

  #forget(body: Fields): void {
    const output = asObject(body['response'])?.['output']
    if (!Array.isArray(output)) return
    for (const [at, item] of output.entries()) this.#text.forget(byId.ofItem((asObject(item) as Fields) ?? {}, at))
  }
}

/** Whether an event repeats what the user said or a tool answered. That is part of the prompt. */
function isSaidToModel(body: Fields): boolean {
  const item = asObject(body['item'])
  if (!item) return false
  return item['role'] === 'user' || item['role'] === 'system' || item['type'] === 'function_call_output'
}
