// Writes a whole response for a client.
import type { AnswerPart, Finish, ModelAnswer } from '../canonical/answer.ts'
import type { AnswerHead } from '../canonical/codec.ts'
import type { Usage } from '../../money/usage.ts'
import { noUsage } from '../../money/usage.ts'
import { asObject } from '../object.ts'
import { writeResponsesUsage } from '../usage/openai-tokens.ts'
import { writeFinish } from './finish.ts'
import { contentOf, goOn, isEmpty, itemId, signatureOf, statusOf, writeItem } from './items.ts'
import type { Content, Item } from './items.ts'

export function encodeAnswer({ candidates, usage }: ModelAnswer, head: AnswerHead): Record<string, unknown> {
  const { parts, finish } = candidates[0]!
  const contents = joined(parts)
    .flatMap((content) => {
      const signature = signatureOf(content.opening)
      return signature ? [signature, content] : [content]
    })
    .filter((content) => !isEmpty(content))
  const output = contents.map((content, index) =>
    writeItem(
      content,
      itemId(content.opening, head.id, index),
      statusOf(content, index === contents.length - 1, finish)
    )
  )
  return writeResponse(head, { output, finish, usage: usage ?? noUsage })
}

/** The contents of the parts. Texts that follow each other are joined. */
function joined(parts: readonly AnswerPart[]): Content[] {
  const contents: Content[] = []
  for (const part of parts) {
    const content = contentOf(part)
    const last = contents.at(-1)
    if (last?.opening.type === 'text' && content.opening.type === 'text') goOn(last, content)
    else contents.push(content)
  }
  return contents
}

/** How a response ended. Without it, the response has only begun. */
interface Ending {
  output: readonly Item[]
  finish: Finish
  usage: Readonly<Usage>
}

/** The response object, in any state. It repeats members of the request. */
export function writeResponse({ id, created, model, request }: AnswerHead, ending?: Ending): Record<string, unknown> {
  const text = asObject(request['text'])
  const reasoning = asObject(request['reasoning'])
  return {
    id: `resp_${id}`,
    object: 'response',
    created_at: created,
    ...(ending ? writeFinish(ending.finish) : { status: 'in_progress', incomplete_details: null }),
    background: false,
    error: null,
    instructions: request['instructions'] ?? null,
    max_output_tokens: request['max_output_tokens'] ?? null,
    model,
    output: ending?.output ?? [],
    parallel_tool_calls: request['parallel_tool_calls'] ?? true,
    previous_response_id: null,
    reasoning: { effort: reasoning?.['effort'] ?? null, summary: reasoning?.['summary'] ?? null },
    store: false,
    temperature: request['temperature'] ?? null,
    text: {
      format: text?.['format'] ?? { type: 'text' },
      ...(text?.['verbosity'] != null && { verbosity: text['verbosity'] })
    },
    tool_choice: request['tool_choice'] ?? 'auto',
    tools: request['tools'] ?? [],
    top_p: request['top_p'] ?? null,
    truncation: request['truncation'] ?? 'disabled',
    usage: ending ? writeResponsesUsage(ending.usage) : null,
    access_programs: null,
    user: request['user'] ?? null,
    metadata: request['metadata'] ?? {}
  }
}
