// Measures what a request says to the model, for estimates: how much text, and how many pictures, sounds and files.
import type { RequestBody } from '../core/bodies/body.ts'

/** The tokens counted for a picture, sound or file of any size, which is what a picture in low detail takes. */
export const mediaTokens = 85

/** The members that a model reads, in all protocols. Other members are settings, which cost nothing. */
const members = [
  'messages',
  'tools',
  'functions',
  'response_format',
  'input',
  'instructions',
  'system',
  'prompt',
  'suffix',
  'contents',
  'generateContentRequest',
  'systemInstruction',
  'system_instruction',
  'documents',
  'query'
] as const

/** UTF-8 bytes of text, and the number of pictures, sounds and files. */
export interface Prompt {
  text: number
  media: number
}

/** What the members of a request say that a model reads; all of its bytes where it has none of them. */
export function promptOf({ bytes, lens }: RequestBody): Prompt {
  const prompt = { text: 0, media: 0 }
  let found = false
  for (const name of members) {
    const member = lens.members.get(name)
    if (!member) continue
    found = true
    prompt.text += member.said
    prompt.media += member.media
  }
  return found ? prompt : { text: bytes.length, media: 0 }
}
