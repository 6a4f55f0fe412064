// What is special about the model that a request is written for.
import type { ChannelTraits } from '../../catalogue/catalogue.ts'

/** Facts of a channel and of the model behind it. What is not given is as the newest models have it. */
export interface Traits extends ChannelTraits {
  /**
   * The longest answer of the model in tokens; what is sent where a protocol demands a limit, and what shares of it are
   * taken from.
   */
  readonly maxOutputTokens?: number
  /** Chat: the usage of a stream can be asked for. */
  readonly streamOptions?: boolean
}
