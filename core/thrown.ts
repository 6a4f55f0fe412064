// The text of what was thrown: plugins and the libraries that they use may throw anything, also what has no text.

/** As `String` writes it, or that it has no text. Never throws. */
export function thrownText(thrown: unknown): string {
  try {
    return String(thrown)
  } catch {
    return `a thrown ${typeof thrown} that has no text`
  }
}

/** The message if it is an error that has one, else {@link thrownText}. Never throws. */
export function thrownMessage(thrown: unknown): string {
  return textIn(thrown, 'message') ?? thrownText(thrown)
}

/** The stack if it is an error that has one, else {@link thrownText}. Never throws. */
export function thrownStack(thrown: unknown): string {
  return textIn(thrown, 'stack') ?? thrownText(thrown)
}

/** The code if it is an error of the system or of Node, such as `ECONNREFUSED`. Never throws. */
export function thrownCode(thrown: unknown): string | undefined {
  return textIn(thrown, 'code')
}

/** As many as are told of. Causes may go round in a circle. */
const mostCauses = 10

/** The cause of an error, the cause of that, and so on, as far as they are errors or what ends their line. */
export function causesOf(thrown: unknown): unknown[] {
  const causes: unknown[] = []
  try {
    for (let error = thrown; error instanceof Error && causes.length < mostCauses; error = error.cause)
      if (error.cause !== undefined) causes.push(error.cause)
  } catch {
    // The rest cannot be read.
  }
  return causes
}

function textIn(thrown: unknown, member: 'message' | 'stack' | 'code'): string | undefined {
  try {
    const text: unknown = thrown instanceof Error ? (thrown as NodeJS.ErrnoException)[member] : undefined
    return typeof text === 'string' ? text : undefined
  } catch {
    // Members of errors may be functions that throw.
    return undefined
  }
}
