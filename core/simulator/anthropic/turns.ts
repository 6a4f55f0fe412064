// Checks the order of a conversation's messages by Anthropic's rules.
import { isObject, oneOf } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { readBlocks } from './blocks.ts'
import type { Block } from './blocks.ts'
import { required, wrong } from './fields.ts'

/** One message. */
export interface Turn {
  role: 'user' | 'assistant' | 'system'
  blocks: readonly Block[]
}

const mostMessages = 100_000
const tokensPerMessage = 4

/** The tokens of a message and of everything in it. */
export function tokensOf({ blocks }: Turn): number {
  return blocks.reduce((sum, { tokens }) => sum + tokens, tokensPerMessage)
}

/** @throws Refusal */
export function readTurns(body: Fields): Turn[] {
  const given = required(body, '', 'messages', Array.isArray, 'a valid list')
  if (given.length === 0) throw wrong('messages', 'at least one message is required')
  if (given.length > mostMessages) throw wrong('messages', `List should have at most ${mostMessages} items`)
  const turns = given.map((message: unknown, i): Turn => {
    if (!isObject(message)) throw wrong(`messages.${i}`, 'Input should be a valid dictionary')
    const role = required(
      message,
      `messages.${i}`,
      'role',
      oneOf('user', 'assistant', 'system'),
      "'user' or 'assistant'"
    ) as Turn['role']
    const blocks = readBlocks(message['content'], `messages.${i}.content`, role)
    if (blocks.length === 0 && (role !== 'assistant' || i < given.length - 1))
      throw wrong(`messages.${i}`, `${role} messages must have non-empty content`)
    return { role, blocks }
  })
  const last = turns.at(-1)!
  if (last.role === 'assistant' && /\s$/.test(last.blocks.at(-1)?.text ?? ''))
    throw wrong('messages', 'final assistant content cannot end with trailing whitespace')
  checkCalls(turns)
  return turns
}

/** Checks that every call has a result at the beginning of the very next turn, and that every result has a call. */
function checkCalls(turns: readonly Turn[]): void {
  let open = new Set<string>()
  let openedAt = 0
  for (const [i, { role, blocks }] of turns.entries()) {
    const results = blocks.flatMap(({ type, callId }) =>
      type === 'tool_result' && callId !== undefined ? [callId] : []
    )
    for (const id of results) {
      if (!open.delete(id)) {
        throw wrong(
          `messages.${i}.content`,
          `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`
        )
      }
    }
    // Consecutive messages of one role are one turn.
    const continues = role === 'user' && turns[i + 1]?.role === 'user'
    if (role === 'user' && blocks.findLastIndex(({ type }) => type === 'tool_result') >= results.length) {
      throw wrong(`messages.${i}.content`, '`tool_result` blocks must come before all other content')
    }
    if (role === 'user' && !continues && open.size > 0) throw unanswered(openedAt, open)
    if (role !== 'assistant') continue
    if (open.size > 0 && turns[i - 1]?.role !== 'assistant') throw unanswered(openedAt, open)
    openedAt = i
    open = new Set([
      ...open,
      ...blocks.flatMap(({ type, callId }) => (type === 'tool_use' && callId !== undefined ? [callId] : []))
    ])
  }
  if (open.size > 0 && turns.at(-1)!.role !== 'assistant') throw unanswered(openedAt, open)
}

function unanswered(at: number, ids: ReadonlySet<string>): Error {
  return wrong(
    `messages.${at}`,
    `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${[...ids].join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`
  )
}
