// Makes plain values of the globals that every request reads.

/**
 * Node has them behind getters, which every use of one calls: 20 to 30 ns, dozens of times in a request. What is a
 * value and never assigned is a constant in compiled code. Imported before what uses them.
 */
for (const name of ['Buffer', 'performance', 'process'] as const) {
  Object.defineProperty(globalThis, name, { value: globalThis[name], writable: true })
}
