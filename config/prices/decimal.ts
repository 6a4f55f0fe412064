// Converts the decimal numbers of prices to integers and back.

/** A thousand dollars per unit, the most that gateway.yaml takes. */
const highest = 10n ** 18n

/**
 * Converts dollars per unit, as written (`1.25e-06`), to nano-dollars per million units. `exact` is false when further
 * digits were rounded, halves up. Undefined for anything that is not such a number, is negative, or is more than a
 * thousand dollars.
 */
export function exactly(value: unknown): { value: bigint; exact: boolean } | undefined {
  const [, whole, fraction = '', exponent = '0'] =
    /^(\d{1,40})(?:\.(\d{1,40}))?(?:e([+-]?\d{1,3}))?$/i.exec(typeof value === 'string' ? value.trim() : '') ?? []
  if (whole === undefined) return undefined
  const digits = BigInt(whole + fraction)
  const shift = 15 - fraction.length + Number(exponent)
  const divisor = 10n ** BigInt(Math.max(0, -shift))
  const scaled = digits * 10n ** BigInt(Math.max(0, shift))
  const rate = (scaled + divisor / 2n) / divisor
  return rate > highest ? undefined : { value: rate, exact: scaled % divisor === 0n }
}

/**
 * Writes an amount with `decimals` decimal places for YAML. It is in quotes when a number could not have all its
 * digits.
 */
export function written(rate: bigint, decimals: number): string {
  const digits = rate.toString().padStart(decimals + 1, '0')
  const text = `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '')
  return text.replace(/^0\.0*|\./g, '').length > 15 ? `"${text}"` : text
}
