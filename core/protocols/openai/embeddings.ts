// The protocol of OpenAI's embeddings.
import { readEmbeddingUsage } from '../usage/openai-chat.ts'
import { openaiChat } from '../openai-chat/protocol.ts'
import { plainText } from '../text/plain-text.ts'
import { hasList, withoutStream } from '../whole.ts'

/** https://platform.openai.com/docs/api-reference/embeddings */
export const openaiEmbeddings = withoutStream(openaiChat, {
  isAnswer: (message) => hasList(message, 'data'),
  readUsage: (message) => readEmbeddingUsage(message.lens?.json('usage')),
  text: plainText({ prompt: ['input'] })
})
