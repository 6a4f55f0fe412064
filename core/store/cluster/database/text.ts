// Text that PostgreSQL can store: it has no NUL, and no half of a surrogate pair.

/** A text with U+FFFD in the place of what PostgreSQL refuses. JSON texts need it not: they escape both. */
export function plain(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\uFFFD')
}
