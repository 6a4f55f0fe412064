// What an exchange runs on: a configuration made live. The program makes them, and keeps each as long as an exchange
// uses it.
import type { Catalogue } from '../../catalogue/catalogue.ts'
import type { Config } from '../../catalogue/settings.ts'
import type { Chain } from './chain.ts'

/** One configuration, from an exchange's first hook to its settlement. */
export interface Generation {
  readonly config: Config
  readonly catalogue: Catalogue
  readonly chain: Chain
  /** The exchange is over. Once per `enter`. */
  leave(): void
}

/** Where exchanges get the present one from. */
export interface GenerationSource {
  /** An exchange begins: the generation stays whole until it says `leave`. */
  enter(): Generation
  /** The present one, for a look: it may be over at the next turn of the loop. */
  readonly current: Generation
}
