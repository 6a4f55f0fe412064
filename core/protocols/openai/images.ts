// The protocol of OpenAI's pictures: whole, or as a stream of partial ones.
import { countOf } from '../counting/count.ts'
import { ListCount } from '../counting/list-count.ts'
import { openaiChat } from '../openai-chat/protocol.ts'
import { asObject } from '../object.ts'
import { plainText } from '../text/plain-text.ts'
import type { Collector, Payload, Protocol, Tally } from '../protocol.ts'
import { readImagesUsage } from '../usage/images.ts'
import { TypedWatch } from './typed-stream.ts'
import { hasList, withoutStream } from '../whole.ts'

const completed: ReadonlySet<string> = new Set(['image_generation.completed', 'image_edit.completed'])

/** https://platform.openai.com/docs/api-reference/images, /images-streaming */
export const openaiImages: Protocol = {
  ...withoutStream(openaiChat, {
    isAnswer: (message) => hasList(message, 'data'),
    readUsage: (message) => readImagesUsage(message.lens?.json('usage')),
    text: plainText({ prompt: ['prompt'] })
  }),
  watch: (request) => new TypedWatch(completed, countOf(request, 'n')),
  chunksOf: eventsOf,
  collect: () => new PictureCollector(),
  tally: () => new PictureTally()
}

/** For a client that asked an upstream without streams for a stream: each picture as the event that completes it. */
function eventsOf(answer: unknown): string[] {
  const { data, created, usage, ...rest } = asObject(answer) ?? {}
  const pictures = Array.isArray(data) ? (data as unknown[]) : []
  return pictures.map((picture, index) =>
    JSON.stringify({
      type: 'image_generation.completed',
      ...asObject(picture),
      created_at: created,
      ...rest,
      ...(index === pictures.length - 1 && usage != null && { usage })
    })
  )
}

/** Collects whole pictures from a stream. */
class PictureCollector implements Collector {
  readonly #data: unknown[] = []
  #rest: Record<string, unknown> = {}

  add(payload: unknown): void {
    const { type, b64_json, url, revised_prompt, created_at: created, ...rest } = asObject(payload) ?? {}
    if (typeof type !== 'string' || !completed.has(type)) return
    this.#data.push({
      ...(b64_json !== undefined && { b64_json }),
      ...(url !== undefined && { url }),
      ...(revised_prompt !== undefined && { revised_prompt })
    })
    this.#rest = { created, ...this.#rest, ...rest }
  }

  result(): unknown {
    return { ...this.#rest, data: this.#data }
  }
}

/** Counts the pictures in an answer, whatever its usage says. */
class PictureTally implements Tally {
  #pictures = 0
  readonly #list = new ListCount('data')

  see(message: Payload): void {
    if (message.kind === 'event') {
      const type = message.lens?.string('type')
      if (type !== undefined && completed.has(type)) this.#pictures++
    } else if (message.kind === 'json') {
      const data = asObject(message.json())?.['data']
      if (Array.isArray(data)) this.#pictures = data.length
    } else if (message.kind === 'bytes') this.#list.see(message.data)
  }

  read(): ReturnType<Tally['read']> {
    return { image: this.#pictures + this.#list.objects }
  }
}
