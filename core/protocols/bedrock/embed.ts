// The protocol of models that Bedrock invokes for vectors, as they answer a series of requests. No client speaks it.
import { account, Counts } from '../usage/account.ts'
import { invokedTokens } from '../usage/bedrock.ts'
import { withoutStream } from '../whole.ts'
import { bedrock } from './protocol.ts'

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html */
export const bedrockEmbed = withoutStream(bedrock, {
  isAnswer: ({ lens }) => lens?.type('answers') === 'array',
  readUsage: ({ lens }) => account(new Counts(), { prompt: invokedTokens(lens?.json('heads')), completion: 0 })
})
