// Finds models with endpoints whose usage their price does not charge, for `sluice check`.
import type { Config, Problem } from '../catalogue/settings.ts'
import { countersOf, formFor } from '../contract/operation.ts'
import type { Operation } from '../contract/operation.ts'
import { below } from '../options/schema-check.ts'
import { isPriced } from '../money/price.ts'
import type { Price } from '../money/price.ts'

/** Returns warnings for each model with such endpoints among those that its channels serve. */
export function unpriced({ models, places }: Config, operations: readonly Operation[]): Problem[] {
  return [...models.values()].flatMap(({ name, prices, channels }) => {
    const served = operations.filter((operation) => channels.some((channel) => formFor(operation, channel)))
    const among = (test: (operation: Operation, price: Price) => boolean): string => {
      const found = served.filter((operation) => prices.some(({ price }) => test(operation, price)))
      return [...new Set(found.map(({ endpoint }) => endpoint))].join(', ')
    }
    const refused = among((operation, price) => !charges(operation, price))
    const estimated = among((operation, price) => charges(operation, price) && isEstimated(operation, price))
    const at = `models.${name}.price: has nothing for what`
    const messages = [
      ...(refused ? [`${at} ${refused} counts: such requests are refused until it has`] : []),
      ...(estimated
        ? [`${at} ${estimated} counts: it is charged by an estimate in tokens until "character" is given`]
        : [])
    ]
    return messages.map((message) => ({ place: places.get(`${below('/models', name)}/price`)!, message }))
  })
}

function charges({ metering }: Operation, price: Price): boolean {
  return !metering || isPriced(price, countersOf(metering))
}

/** Whether usage is charged by an estimate: upstreams report no tokens for speech. */
function isEstimated({ metering }: Operation, price: Price): boolean {
  return metering?.characters !== undefined && !isPriced(price, ['call', 'characters'])
}
