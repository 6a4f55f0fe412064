// Facts about a model that encoders need.
import type { ChannelTraits } from '../../catalogue/catalogue.ts'

/** Facts about a channel and the model behind it. What is absent is as in the newest models. */
export interface Traits extends ChannelTraits {
  /**
   * The longest answer of the model, in tokens. It is sent where a protocol requires a limit, and budgets are shares of
   * it.
   */
  readonly maxOutputTokens?: number
  /** For chat completions: whether the upstream accepts `stream_options`, which asks for usage in a stream. */
  readonly streamOptions?: boolean
}
