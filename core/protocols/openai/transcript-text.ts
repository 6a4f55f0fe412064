// Finds and edits text in transcripts: in the text, and in the segments and words that repeat it.
import { editedList, editedMember, editedText } from '../text/edits.ts'
import { asObject } from '../object.ts'
import { plainText } from '../text/plain-text.ts'
import type { AnswerText, EditedEvent, Payload, ProtocolText, TextBlock, TextEditor, TextEvent } from '../protocol.ts'
import { Uninspectable } from '../text/uninspectable.ts'

/** https://platform.openai.com/docs/api-reference/audio/transcript-text-delta-event */
export const transcriptText: ProtocolText = { ...plainText({ prompt: ['prompt'] }), answer: () => new TranscriptText() }

/** The longest transcript that is kept, in characters. */
const mostKept = 16 * 1024 * 1024

const transcript: TextBlock = { block: 'text', kind: 'text' }

class TranscriptText implements AnswerText {
  /** The edited transcript so far. The last event repeats it. */
  #said: string[] = []
  #length = 0
  #begun = false

  event(event: Payload, editor: TextEditor): EditedEvent | undefined {
    const body = asObject(event.json())
    if (!body) return undefined
    const before: TextEvent[] = []
    let made = editedText(body, 'delta', (text) => this.#run(text, editor))
    if (body['type'] === 'transcript.text.done') {
      if (!this.#begun) editedText(body, 'text', (text) => this.#run(text, editor))
      const tail = this.#begun ? editor.end(transcript) : ''
      if (tail !== '')
        before.push({
          event: 'transcript.text.delta',
          data: JSON.stringify({ type: 'transcript.text.delta', delta: tail })
        })
      made = editedText(made, 'text', () => this.#said.join('') + tail)
    } else if (body['type'] === 'transcript.text.segment')
      made = editedText(made, 'text', (text) => shownAlone(`segment.${JSON.stringify(body['id'])}`, text, editor))
    if (made !== body && 'logprobs' in body) made = { ...made, logprobs: [] }
    if (made === body && before.length === 0) return undefined
    return { before, data: made === body ? undefined : Buffer.from(JSON.stringify(made)) }
  }

  /** Nothing is left to send: the last event of a stream ends the transcript. */
  end(): readonly TextEvent[] {
    return []
  }

  whole(answer: Payload, editor: TextEditor): Buffer | undefined {
    const body = asObject(answer.json())
    if (!body) return undefined
    let made = editedText(body, 'text', (text) => editor.text({ ...transcript, text }) + editor.end(transcript))
    made = editedMember(made, 'segments', (value) =>
      editedList(value, (segment, at) =>
        editedText(segment, 'text', (text) => shownAlone(`segments.${at}`, text, editor))
      )
    )
    made = editedMember(made, 'words', (value) =>
      editedList(value, (word, at) => editedText(word, 'word', (text) => shownAlone(`words.${at}`, text, editor)))
    )
    return made === body
      ? undefined
      : Buffer.from(JSON.stringify('logprobs' in made ? { ...made, logprobs: [] } : made))
  }

  #run(text: string, editor: TextEditor): string {
    this.#begun = true
    const said = editor.text({ ...transcript, text })
    this.#length += said.length
    if (this.#length > mostKept) {
      throw new Uninspectable(
        `the transcript has more than ${mostKept} characters, which have to be kept as its last event repeats them`
      )
    }
    this.#said.push(said)
    return said
  }
}

function shownAlone(block: string, text: string, editor: TextEditor): string {
  return editor.text({ block, kind: 'text', text }) + editor.end({ block, kind: 'text' })
}
