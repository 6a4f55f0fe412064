// The list of all operations. The order matters only between operations with the same path and method: the first one
// whose `when` accepts the request is used.
import { guarded } from './foreign.ts'
import type { ServedOperation } from '../contract/served.ts'
import { speech, transcriptions, translations } from './audio.ts'
import { chat } from './chat.ts'
import { clientSecrets } from './client-secrets.ts'
import { completions } from './completions.ts'
import { embeddings } from './embeddings.ts'
import {
  batchEmbedContents,
  embedContent,
  geminiCountTokens,
  generateContent,
  streamGenerateContent,
  streamGenerateList
} from './generate.ts'
import { imageEdits, imageGenerations, imageVariations } from './images.ts'
import { countTokens, messages } from './messages.ts'
import { models } from './models.ts'
import { moderations } from './moderations.ts'
import { openApi } from './openapi.ts'
import { realtime } from './realtime.ts'
import { rerank } from './rerank.ts'
import { compactResponse, countInputTokens, responses } from './responses/create.ts'
import { cancelResponse, deleteResponse, listInputItems, readResponse } from './responses/kept.ts'
import { videoGenerations, videoTask, videoTaskCancel, videoTaskContent, videoTaskDelete } from './tasks/generations.ts'
import { pictureTask, pictureTaskCancel, pictureTaskDelete, pictureTasks } from './tasks/pictures.ts'
import { videoCancel, videoContent, videoCreate, videoDelete, videoList, videoRetrieve } from './tasks/videos.ts'

const served: readonly ServedOperation[] = [
  chat,
  responses,
  compactResponse,
  countInputTokens,
  readResponse,
  cancelResponse,
  deleteResponse,
  listInputItems,
  messages,
  countTokens,
  generateContent,
  streamGenerateContent,
  streamGenerateList,
  geminiCountTokens,
  embedContent,
  batchEmbedContents,
  completions,
  embeddings,
  imageGenerations,
  imageEdits,
  imageVariations,
  speech,
  transcriptions,
  translations,
  rerank,
  moderations,
  realtime,
  clientSecrets,
  videoGenerations,
  videoTask,
  videoTaskCancel,
  videoTaskDelete,
  videoTaskContent,
  pictureTasks,
  pictureTask,
  pictureTaskCancel,
  pictureTaskDelete,
  videoCreate,
  videoList,
  videoRetrieve,
  videoCancel,
  videoDelete,
  videoContent,
  ...models
]

/** Every operation of the data listener, once each. */
export const operations: readonly ServedOperation[] = [...served.map(guarded), openApi(served)]
