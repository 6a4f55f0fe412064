// The names of endpoints in the configuration, for what keys may call and what channels support.

/** The endpoints that a channel may support. */
export const channelEndpoints = [
  'chat',
  'completions',
  'embeddings',
  'images',
  'audio',
  'moderations',
  'rerank',
  'videos',
  'realtime',
  'responses'
] as const

/** The name of an endpoint, which may have several operations. */
export type EndpointName = (typeof channelEndpoints)[number] | 'models' | 'unknown'

/** The endpoints that a key may be allowed to call. The gateway answers `models` by itself. */
export const endpointNames: readonly string[] = [...channelEndpoints, 'models'] satisfies EndpointName[]
