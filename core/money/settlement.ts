// What is charged in the end: the one rule by which every hold is settled, whoever settles it and whenever.
import type { Nano } from './money.ts'
import { costOf, withCall } from './price.ts'
import type { Price } from './price.ts'
import { noUsage } from './usage.ts'
import type { Pieces, Usage } from './usage.ts'

/** A million dollars: a charge that is so much above its hold is a broken upstream's, and would lock every budget. */
export const incredible: Nano = 10n ** 15n

/** What whoever settles writes to the log where {@link chargeFor} doubts a usage. */
export const doubted = 'a usage that cannot be true was reported: the prompt is charged instead'

/** What whoever settles writes to the log where computing a charge fails: the hold ends all the same. */
export const uncomputed = 'a charge could not be computed: the estimate of the request is charged instead'

/** What was consumed, and where the numbers come from. */
export interface Consumed<Source extends string> {
  readonly usage: Readonly<Usage>
  readonly source: Source
}

/** What a charge is measured by: the amount that was held, and the price that it was held at. */
export interface HeldAt {
  readonly amount: Nano
  readonly price: Price
}

/** A charge. Its usage has the request itself in it where that has a price. */
export interface Charged<Source extends string> {
  readonly usage: Usage
  readonly source: Source | 'estimated'
  readonly amount: Nano
}

/**
 * What is charged for a request whose process went without ending it: these tokens of input, the delivered output up to
 * `maxOutput`, and the units of the request itself that are no tokens, such as characters, seconds and pictures.
 */
export interface Estimate {
  readonly input: number
  readonly maxOutput: number
  readonly pieces?: Pieces | undefined
}

/** The usage of a request by its estimate, with so many tokens of output delivered. */
export function usageOf({ input, maxOutput, pieces }: Estimate, delivered: number): Usage {
  return { ...noUsage, input, ...pieces, output: Math.min(delivered, maxOutput) }
}

/** The charge for a request that was dispatched and whose process went without ending it: see {@link chargeFor}. */
export function chargeAbandoned(
  estimate: Estimate,
  delivered: number,
  held: HeldAt,
  doubt: (usage: Readonly<Usage>) => void
): Charged<'recovered'> {
  const usage = usageOf(estimate, delivered)
  return chargeFor({ usage, source: 'recovered' }, held, () => usageOf(estimate, 0), doubt)
}

/**
 * The charge for what was consumed, at the price of its hold. A usage that cannot be true is charged by the prompt, and
 * by nothing where that cannot be true either; `doubt` is then told of it, once. `prompt`: what went in, by estimate;
 * asked for only then.
 */
export function chargeFor<Source extends string>(
  { usage, source }: Consumed<Source>,
  held: HeldAt,
  prompt: () => Readonly<Usage>,
  doubt: (usage: Readonly<Usage>) => void
): Charged<Source> {
  const charged = credible<Source>(usage, source, held)
  if (charged) return charged
  doubt(usage)
  return credible<Source>(prompt(), 'estimated', held) ?? { usage: { ...noUsage }, source: 'estimated', amount: 0n }
}

/** The charge for a usage; undefined when its numbers are no counts, or it cannot be true. */
function credible<Source extends string>(
  usage: Readonly<Usage>,
  source: Charged<Source>['source'],
  held: HeldAt
): Charged<Source> | undefined {
  if (!isCounted(usage)) return undefined
  const charged = priced<Source>(usage, source, held)
  return charged.amount - held.amount <= incredible ? charged : undefined
}

function priced<Source extends string>(
  usage: Readonly<Usage>,
  source: Charged<Source>['source'],
  { price }: HeldAt
): Charged<Source> {
  const units = withCall(usage, price)
  return { usage: units, source, amount: costOf(units, price) }
}

function isCounted(usage: Readonly<Usage>): boolean {
  for (const name in usage) {
    const units = usage[name as keyof Usage]
    if (units !== undefined && !(Number.isSafeInteger(units) && units >= 0)) return false
  }
  return true
}
