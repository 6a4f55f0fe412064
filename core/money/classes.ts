// The classes that carry a price, a row each: the shape of prices, costs, bounds, limits and documentation follow from
// it.

/** What a unit of a class is. Prices of tokens and characters are for as many as `per` says, all others for one. */
type Unit = 'token' | 'character' | 'picture' | 'call' | 'search' | 'second'

/**
 * What says how many units a request can come to, before it is answered: its prompt, the limit of its answer, the text
 * that is to be spoken, the pictures, searches and seconds that are asked for, itself, and its calls of hosted tools.
 */
export type Counter = 'prompt' | 'answer' | 'characters' | 'pictures' | 'call' | 'searches' | 'seconds' | 'tools'

interface Row {
  readonly unit: Unit
  /** Whether the prompt or the answer is longer by its units; neither for what is no part of their length. */
  readonly side: 'prompt' | 'answer' | 'neither'
  readonly countedBy: Counter
  /** The class whose price it has without one of its own; it stands above. */
  readonly inherits?: string
  /** False where limits of tokens do not count it. */
  readonly limited?: false
  /** Its units, for documentation. */
  readonly about: string
}

/** In the order in which they are shown. */
const table = {
  input: { unit: 'token', side: 'prompt', countedBy: 'prompt', about: 'Input tokens that no other class counts' },
  cached_input: {
    unit: 'token',
    side: 'prompt',
    countedBy: 'prompt',
    inherits: 'input',
    limited: false,
    about: 'Input tokens read from a cache'
  },
  cache_write: {
    unit: 'token',
    side: 'prompt',
    countedBy: 'prompt',
    inherits: 'input',
    about: 'Input tokens written to a cache'
  },
  cache_write_long: {
    unit: 'token',
    side: 'prompt',
    countedBy: 'prompt',
    inherits: 'cache_write',
    about: 'Input tokens written to a cache for longer than usual, such as an hour'
  },
  output: { unit: 'token', side: 'answer', countedBy: 'answer', about: 'Output tokens, reasoning included' },
  audio_input: {
    unit: 'token',
    side: 'prompt',
    countedBy: 'prompt',
    inherits: 'input',
    about: 'Audio input tokens'
  },
  audio_output: {
    unit: 'token',
    side: 'answer',
    countedBy: 'answer',
    inherits: 'output',
    about: 'Audio output tokens'
  },
  image_input: {
    unit: 'token',
    side: 'prompt',
    countedBy: 'prompt',
    inherits: 'input',
    about: 'Image input tokens'
  },
  image_output: {
    unit: 'token',
    side: 'answer',
    countedBy: 'answer',
    inherits: 'output',
    about: 'Image output tokens'
  },
  character: { unit: 'character', side: 'neither', countedBy: 'characters', about: 'Characters to be spoken' },
  image: { unit: 'picture', side: 'neither', countedBy: 'pictures', about: 'One picture made' },
  request: { unit: 'call', side: 'neither', countedBy: 'call', about: 'One call' },
  search: { unit: 'search', side: 'neither', countedBy: 'searches', about: 'One search unit of a reranking' },
  second: { unit: 'second', side: 'neither', countedBy: 'seconds', about: 'One second of media' },
  tool_call: {
    unit: 'call',
    side: 'neither',
    countedBy: 'tools',
    about: "One call of the upstream's own tools that no other class counts"
  },
  web_search: {
    unit: 'call',
    side: 'neither',
    countedBy: 'tools',
    inherits: 'tool_call',
    about: 'One search of the web by the upstream'
  },
  file_search: {
    unit: 'call',
    side: 'neither',
    countedBy: 'tools',
    inherits: 'tool_call',
    about: 'One search of files that the upstream keeps'
  },
  code_interpreter: {
    unit: 'call',
    side: 'neither',
    countedBy: 'tools',
    inherits: 'tool_call',
    about: 'One call of a code interpreter of the upstream'
  }
} as const satisfies Readonly<Record<string, Row>>

type Table = typeof table

/** A class with a price of its own. */
export type PricedClass = keyof Table

/** A class whose units are tokens. */
export type TokenClass = { [K in PricedClass]: Table[K]['unit'] extends 'token' ? K : never }[PricedClass]

/** What a class is. */
export interface PriceClass extends Row {
  readonly inherits?: PricedClass
}

/** By name, in the order in which they are shown: a class stands below the one whose price it inherits. */
export const priceClasses: Readonly<Record<PricedClass, PriceClass>> = table

/** The classes that carry a price, in the order in which they are shown. */
export const pricedClasses = Object.keys(table) as PricedClass[]

/** The classes whose units are tokens. */
export const tokenClasses = pricedClasses.filter((name): name is TokenClass => priceClasses[name].unit === 'token')

/** All counters. */
export const counters = [...new Set(pricedClasses.map((name) => priceClasses[name].countedBy))]

/** The classes that tokens of the prompt fall into. */
export const promptClasses = setOf(({ side }) => side === 'prompt')

/** The classes that tokens of the answer fall into. */
export const answerClasses = setOf(({ side }) => side === 'answer')

/** The classes that limits of tokens count. */
export const limitedClasses = setOf(({ unit, limited }) => unit === 'token' && limited !== false)

function setOf(isOf: (priced: PriceClass) => boolean): ReadonlySet<string> {
  return new Set(pricedClasses.filter((name) => isOf(priceClasses[name])))
}

/** Whether a price of the class is for as many units as `per` says, and not for one. */
export function isByQuantity(name: PricedClass): boolean {
  const { unit } = priceClasses[name]
  return unit === 'token' || unit === 'character'
}
