// Reads Anthropic's `thinking`, which chat clients send to gateways too.
import type { Losses } from './losses.ts'
import type { Members } from './members.ts'
import type { ModelRequest } from './request.ts'

/** Reads the member `thinking` of a request (Anthropic, "Extended thinking"). */
export function readThinking(thinking: Members | undefined, { reasoning }: ModelRequest, losses: Losses): void {
  if (!thinking) return
  const type = thinking.string('type')
  if (type === 'disabled') {
    reasoning.effort = 'none'
    losses.see('reasoning_effort', 'thinking')
  } else if (type === 'enabled') {
    reasoning.tokens = thinking.count('budget_tokens', 1)
    losses.see('reasoning_budget')
  } else if (type !== 'adaptive') losses.see('hint', 'thinking')
  if (type === 'enabled' || type === 'adaptive') reasoning.visible = true
  if (thinking.string('display') === 'omitted') {
    reasoning.visible = false
    losses.see('reasoning_visible')
  }
}
