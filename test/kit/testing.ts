// The exports of `sluice/testing` for authors of plugins: the contract test, and the workbench with its upstream.
export { pluginContract } from './contract.ts'
export type { Particulars } from './contract.ts'
export { channelTo, chatAnswer, chatEvents, defaultChain, key, Workbench } from './workbench.ts'
export type { Answer, Ask, Sections } from './workbench.ts'
export { endOfBody, events, head, pause, reset, stall, Upstream } from './upstream.ts'
