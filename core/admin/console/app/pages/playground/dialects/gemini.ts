// Gemini's generateContent.
import type { Answer, Ask, Dialect, Message } from '../conversation.ts'
import { argumentsOf, at, listAt, numberAt, parsed, textAt } from '../json.ts'

/** generateContent, and streamGenerateContent for streams. */
export const gemini: Dialect = {
  name: 'gemini',
  title: 'Gemini generateContent',
  path: (model, stream) =>
    `/v1beta/models/${encodeURIComponent(model)}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  body({ system, messages, tools, max, temperature, topP }: Ask) {
    const generation = {
      ...(max !== undefined && { maxOutputTokens: max }),
      ...(temperature !== undefined && { temperature }),
      ...(topP !== undefined && { topP })
    }
    return {
      ...(system !== '' && { systemInstruction: { parts: [{ text: system }] } }),
      contents: messages.map(contentOf),
      ...(Object.keys(generation).length > 0 && { generationConfig: generation }),
      ...(tools.length > 0 && { tools: [{ functionDeclarations: tools }] })
    }
  },
  whole: take,
  event: take
}

function take(answer: Answer, json: unknown): void {
  const error = textAt(json, 'error', 'message')
  if (error !== '') answer.error = error
  const kept = (answer.raw ??= []) as unknown[]
  for (const part of listAt(json, 'candidates', 0, 'content', 'parts')) {
    kept.push(part)
    const text = textAt(part, 'text')
    if (at(part, 'thought') === true) answer.thoughts += text
    else answer.text += text
    const call = at(part, 'functionCall')
    if (call !== undefined)
      answer.calls.push({
        id: textAt(call, 'id') || `call_${answer.calls.length + 1}`,
        name: textAt(call, 'name'),
        arguments: JSON.stringify(at(call, 'args') ?? {})
      })
    const [media, data] = [textAt(part, 'inlineData', 'mimeType'), textAt(part, 'inlineData', 'data')]
    if (media.startsWith('image/')) answer.pictures.push({ media, data })
  }
  answer.finish =
    textAt(json, 'candidates', 0, 'finishReason') || textAt(json, 'promptFeedback', 'blockReason') || answer.finish
  answer.input = numberAt(json, 'usageMetadata', 'promptTokenCount') ?? answer.input
  const output = numberAt(json, 'usageMetadata', 'candidatesTokenCount')
  if (output !== undefined) answer.output = output + (numberAt(json, 'usageMetadata', 'thoughtsTokenCount') ?? 0)
}

function contentOf({ role, parts, raw }: Message): object {
  if (raw?.protocol === 'gemini') return { role: 'model', parts: raw.content }
  return {
    role: role === 'user' ? 'user' : 'model',
    parts: parts.flatMap((part): object[] => {
      switch (part.kind) {
        case 'text':
          return part.text === '' ? [] : [{ text: part.text }]
        case 'picture':
        case 'sound':
          return [{ inlineData: { mimeType: part.media, data: part.data } }]
        case 'call':
          return [{ functionCall: { name: part.name, args: argumentsOf(part.arguments) } }]
        case 'result': {
          const value = parsed(part.text)
          const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
          return [{ functionResponse: { name: part.name, response: isObject ? value : { result: part.text } } }]
        }
      }
    })
  }
}
