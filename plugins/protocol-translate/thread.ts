// The thread that translates large requests and answers, one after another, so that they do not hold up streams.
import { parentPort } from 'node:worker_threads'
import { translateRequest, translateWhole, unsealRequest, Untranslatable } from '../../core/contract/contract.ts'
import type {
  AnswerHead,
  AnswerTask,
  CodecName,
  Keepsake,
  RequestTask,
  TranslatedAnswer,
  TranslatedRequest,
  UntranslatableCode
} from '../../core/contract/contract.ts'
import { reasons } from '../../core/errors.ts'
import { effortOf } from './effort.ts'

/** The most bytes of memory for one translation: eight times as many as the largest usual body has. */
const mostEffort = 248 * 1024 * 1024

/** A question to the thread, which gets the memory of the bytes. */
export type Question = { bytes: Uint8Array } & (
  | { kind: 'translate'; task: RequestTask; kept: ReadonlyMap<string, Keepsake> | undefined }
  | { kind: 'unseal'; protocol: CodecName }
  | { kind: 'answer'; task: AnswerTask; head: AnswerHead }
)

/** The answer: the result, or why there is none. */
export type Answer =
  | { tooInvolved: true }
  | { result: TranslatedRequest | TranslatedAnswer | readonly string[] | { key: string; json: string } | undefined }
  | { refusal: { code: UntranslatableCode; message: string; param: string | undefined } }
  | { fault: string }

parentPort!.on('message', (question: Question) => {
  const answer = answerTo(question)
  const body = 'result' in answer && answer.result && 'body' in answer.result ? answer.result.body : undefined
  parentPort!.postMessage(answer, body ? [body.buffer as ArrayBuffer] : [])
})

function answerTo(question: Question): Answer {
  const bytes = Buffer.from(question.bytes.buffer, question.bytes.byteOffset, question.bytes.byteLength)
  // To remove signatures, a body is not translated, which takes one copy less.
  const most = question.kind === 'unseal' ? 2 * mostEffort : mostEffort
  if (effortOf(bytes, most) > most) return { tooInvolved: true }
  try {
    if (question.kind === 'unseal') return { result: unsealRequest(bytes, question.protocol) }
    if (question.kind === 'answer') return { result: owned(translateWhole(bytes, question.task, question.head)) }
    const { task, kept } = question
    return { result: owned(translateRequest(bytes, task, () => kept)) }
  } catch (error) {
    if (error instanceof Untranslatable)
      return { refusal: { code: error.code, message: error.message, param: error.param } }
    return { fault: reasons(error) }
  }
}

/** Gives the bytes of a result memory of their own, which can be transferred. */
function owned<T extends TranslatedRequest | TranslatedAnswer | readonly string[]>(result: T): T {
  if (!('body' in result) || result.body.byteLength === result.body.buffer.byteLength) return result
  return { ...result, body: new Uint8Array(result.body) }
}
