// The answers that first.ts has asked for before the modules were there.

const early = (globalThis as { sluiceEarly?: Map<string, Promise<Response>> }).sluiceEarly

/** Takes the answer for a path with its query, once; undefined when it was not asked for. */
export function takeEarly(path: string): Promise<Response> | undefined {
  const answer = early?.get(path)
  early?.delete(path)
  return answer
}

/** Drops those that nobody has taken: they tell of the time before somebody changed something, or went elsewhere. */
export function forgetEarly(): void {
  early?.clear()
}
