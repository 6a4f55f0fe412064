// The words for endpoints in the configuration: what keys may call and channels speak.

/** What a channel may be said to speak. */
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

/** The word for an endpoint, which may have several operations. */
export type EndpointName = (typeof channelEndpoints)[number] | 'models' | 'unknown'

/** All that a key may be given; `models` the gateway answers by itself. */
export const endpointNames: readonly string[] = [...channelEndpoints, 'models'] satisfies EndpointName[]
