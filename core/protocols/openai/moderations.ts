// The protocol of OpenAI's moderations. OpenAI itself reports no usage for them.
import { openaiChat } from '../openai-chat/protocol.ts'
import { plainText } from '../text/plain-text.ts'
import { hasList, withoutStream } from '../whole.ts'

/** https://platform.openai.com/docs/api-reference/moderations */
export const openaiModerations = withoutStream(openaiChat, {
  isAnswer: (message) => hasList(message, 'results'),
  readUsage: (message) => openaiChat.readUsage(message),
  text: plainText({ prompt: ['input'] })
})
