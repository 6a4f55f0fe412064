// What is known at once where it is in memory, and later where another process or machine has it.

/**
 * A value, or a promise of it. Only promises are awaited, so that a decision that is made in memory costs no turn of
 * the event loop.
 */
export type Awaitable<T> = T | Promise<T>
