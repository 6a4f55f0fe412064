// The thread that translates large requests, one after the other: what takes long there holds up no stream.
import { parentPort } from 'node:worker_threads'
import { translateRequest, unsealRequest, Untranslatable } from '../../core/contract/contract.ts'
import type { CodecName, Keepsake, RequestTask, TranslatedRequest, UntranslatableCode } from '../../core/contract/contract.ts'

/** What the thread is asked. The bytes are its own. */
export type Question = { bytes: Uint8Array } & (
  | { kind: 'translate'; task: RequestTask; kept: ReadonlyMap<string, Keepsake> | undefined }
  | { kind: 'unseal'; protocol: CodecName }
)

/** What it answers: the result, or why there is none. */
export type Answer =
  | { result: TranslatedRequest | readonly string[] | { key: string; json: string } | undefined }
  | { refusal: { code: UntranslatableCode; message: string; param: string | undefined } }
  | { fault: string }

parentPort!.on('message', (question: Question) => {
  const answer = answerTo(question)
  const body = 'result' in answer && answer.result && 'body' in answer.result ? answer.result.body : undefined
  parentPort!.postMessage(answer, body ? [body.buffer as ArrayBuffer] : [])
})

function answerTo(question: Question): Answer {
  const bytes = Buffer.from(question.bytes.buffer, question.bytes.byteOffset, question.bytes.byteLength)
  try {
    if (question.kind === 'unseal') return { result: unsealRequest(bytes, question.protocol) }
    const { task, kept } = question
    return { result: owned(translateRequest(bytes, task, () => kept)) }
  } catch (error) {
    if (error instanceof Untranslatable) return { refusal: { code: error.code, message: error.message, param: error.param } }
    return { fault: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}

/** With bytes in memory of their own, which can be handed over. */
function owned(result: TranslatedRequest | readonly string[]): TranslatedRequest | readonly string[] {
  if (!('body' in result) || result.body.byteLength === result.body.buffer.byteLength) return result
  return { ...result, body: new Uint8Array(result.body) }
}
