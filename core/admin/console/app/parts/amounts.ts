// Amounts of money as text: nano-dollars in, dollars out. A number would lose digits.

/** Nano-dollars as dollars with all their digits: `-0.000105`. At least two decimals. */
export function allDigits(nano: string): string {
  const negative = nano.startsWith('-')
  const digits = (negative ? nano.slice(1) : nano).padStart(10, '0')
  const decimals = digits.slice(-9).replace(/0{1,7}$/, '')
  const whole = digits.slice(0, -9).replace(/\B(?=(\d{3})+$)/g, ',')
  return `${negative ? '-' : ''}${whole}.${decimals}`
}

/** Nano-dollars as dollars for people: whole from a thousand on, cents from one on, else three digits that count. */
export function shortMoney(nano: string): string {
  const exact = BigInt(nano)
  const size = exact < 0n ? -exact : exact
  const unit =
    size >= 1_000_000_000_000n
      ? 1_000_000_000n
      : size >= 1_000_000_000n
        ? 10_000_000n
        : 10n ** BigInt(Math.max(0, size.toString().length - 3))
  const rounded = ((size + unit / 2n) / unit) * unit
  const text = allDigits(rounded.toString())
  return `${exact < 0n ? '-' : ''}$${unit === 1_000_000_000n ? text.slice(0, -3) : text}`
}

/** Nano-dollars as dollars with all their digits and the sign in front: `-$0.000105`. */
export function fullMoney(nano: string): string {
  return `$${allDigits(nano)}`.replace('$-', '-$')
}
