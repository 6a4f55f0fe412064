// Shifts the clock of a process by SLUICE_SKEW milliseconds: node --import test/cluster/skew.ts …
const by = Number(process.env['SLUICE_SKEW'])
const { now } = Date
Date.now = () => now() + by
Object.defineProperty(performance, 'timeOrigin', { value: performance.timeOrigin + by })
