// The one list of operations. Order matters only between operations with one path and method, of which the first that fits is meant.
import type { ServedOperation } from '../contract/served.ts'
import { chat } from './chat.ts'
import { embeddings } from './embeddings.ts'
import { modelDetail, modelList } from './models.ts'
import { moderations } from './moderations.ts'
import { openApi } from './openapi.ts'
import { rerank } from './rerank.ts'

const served: readonly ServedOperation[] = [chat, embeddings, rerank, moderations, modelList, modelDetail]

/** Every operation of the data listener. */
export const operations: readonly ServedOperation[] = [...served, openApi(served)]
