// Replaces the getters of globals that every request uses with plain values.

/**
 * Node defines these globals with getters, which each use calls: 20 to 30 ns, dozens of times per request. A plain
 * value that is never assigned is a constant in compiled code. This file must be imported before the code that uses
 * them.
 */
for (const name of ['Buffer', 'performance', 'process'] as const) {
  Object.defineProperty(globalThis, name, { value: globalThis[name], writable: true })
}
