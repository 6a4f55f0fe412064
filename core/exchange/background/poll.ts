// Asks upstreams how far their work is, takes down what they say, and ends what has ended, was lost or took too long.
import { channelTo } from '../../catalogue/account.ts'
import type { Progress, WorkKind, WorkQuestion } from '../../contract/background.ts'
import { isOpen } from '../../store/works.ts'
import type { Work, Works } from '../../store/works.ts'
import type { Transport } from '../../transport/transport.ts'
import type { GenerationSource } from '../state/generation.ts'
import type { Conclusions } from './conclusion.ts'
import { cleanName, cleanText } from '../failures/redact.ts'
import { inOurWords } from '../failures/withheld.ts'
import { forAWhile } from './patience.ts'
import { Questions } from './question.ts'
import type { ChannelAnswer } from './question.ts'
import { Rounds } from './rounds.ts'
import { steadyNow } from '../../watchdog/steady-time.ts'

/** Times in a row that an upstream may not know its own work. */
const mostMisses = 3

/** What it works with. */
export interface PollParts {
  works: Works
  generations: GenerationSource
  transport: Transport
  /** By name. */
  kinds: ReadonlyMap<string, WorkKind>
  conclusions: Conclusions
}

/** The poll of a process. */
export class Poll {
  readonly #parts: PollParts
  readonly #questions: Questions
  readonly #rounds: Rounds
  #closed = false

  constructor(parts: PollParts) {
    this.#parts = parts
    this.#questions = new Questions(parts.transport)
    this.#rounds = new Rounds(
      parts.works,
      () => parts.generations.current.config.settings.tasks.poll,
      (work) => this.#ask(work)
    )
  }

  /** Asks again, after it was closed. */
  open(): void {
    this.#rounds.open()
    this.#closed = false
  }

  /** Asks no more. */
  close(): void {
    this.#rounds.close()
    this.#closed = true
    this.#questions.close()
  }

  /** From now on its upstream is asked until the work has ended. */
  add(work: Work): void {
    this.#rounds.add(work)
  }

  /**
   * Asks its upstream, unless it has just been asked. Resolves when what was said is taken down, or when that takes too
   * long; never rejects.
   */
  refresh(work: Work): Promise<void> {
    return forAWhile(this.#rounds.ask(work))
  }

  /** What an upstream said of its work, with status 2xx. Resolves when what follows from it is on disk. */
  async saw(work: Work, body: unknown): Promise<void> {
    await this.#apply(work, this.#read(work, body))
  }

  /** Tells its upstream something, whatever comes of it, and takes down what it says to that, if it says anything. */
  async tell(work: Work, what: 'cancel' | 'forget'): Promise<ChannelAnswer | undefined> {
    const kind = this.#parts.kinds.get(work.kind)
    const question = kind?.[what]?.(work)
    if (!question || work.channel === null) return undefined
    const answer = await this.#question(work, question)
    if (what === 'cancel' && kind!.cancelTells && isFound(answer)) await this.saw(work, answer.body)
    return answer
  }

  /**
   * Calls work off. It has ended when its upstream says so, or does not know it; until then it goes on, and costs what
   * it comes to. Resolves when that is taken down, or when it takes too long; never rejects.
   */
  callOff(work: Work): Promise<void> {
    return forAWhile(this.#callOff(work))
  }

  async #callOff(work: Work): Promise<void> {
    const { kinds, conclusions } = this.#parts
    const answer = await this.tell(work, 'cancel')
    const isOver = answer?.status === 404 || (isFound(answer) && !kinds.get(work.kind)?.cancelTells)
    if (isOver) await conclusions.end(work, { status: 'cancelled' })
  }

  /** Has its upstream stop. Resolves when what that says is taken down, or when it takes too long; never rejects. */
  stop(work: Work): Promise<void> {
    return forAWhile(this.tell(work, 'cancel'))
  }

  async #ask(work: Work): Promise<void> {
    const { kinds, conclusions } = this.#parts
    const kind = kinds.get(work.kind)
    const answer = kind && (await this.#question(work, kind.ask(work)))
    if (this.#closed) return
    if (isFound(answer)) await this.saw(work, answer.body)
    const misses = this.#rounds.missed(work, answer?.status === 404)
    if (misses >= mostMisses)
      await conclusions.end(work, {
        status: 'failed',
        error: { code: 'task_lost', message: 'The upstream does not know the task any more.' }
      })
    else if (steadyNow() >= work.deadline) {
      await this.tell(work, 'cancel')
      await conclusions.end(work, { status: 'expired' })
    }
  }

  /** What its upstream says, without what clients must not see. */
  #read(work: Work, body: unknown): Progress | undefined {
    const { generations, kinds } = this.#parts
    const progress = kinds.get(work.kind)?.read(body, work)
    if (!progress?.error) return progress
    const channel = channelTo(work.account, work.channel ?? '', generations.current.config.channels)
    const { code, message } = (inOurWords(progress.error) ?? progress.error) as NonNullable<Progress['error']>
    // Whose secrets they are is not known any more of a channel that is gone.
    const error = channel && { code: cleanName(code, channel) ?? 'task_failed', message: cleanText(message, channel) }
    return { ...progress, error }
  }

  async #apply(work: Work, progress: Progress | undefined): Promise<void> {
    const { works, conclusions } = this.#parts
    const latest = works.current(work, work.id)
    if (!latest || !progress) return
    if (!isOpen(progress)) return conclusions.end(latest, progress)
    // Neither goes back, whatever an upstream says.
    const status = latest.status === 'in_progress' ? 'in_progress' : progress.status
    const far = Math.max(latest.progress, Math.min(Math.floor(progress.progress ?? 0), 99))
    if (status === latest.status && far === latest.progress) return
    const next = { ...latest, status, progress: far, updated: Date.now() }
    if (status === latest.status) works.note(next)
    else await works.put(next)
  }

  async #question(work: Work, question: WorkQuestion): Promise<ChannelAnswer | undefined> {
    const { generations, kinds } = this.#parts
    const generation = generations.enter()
    try {
      const channel = channelTo(work.account, work.channel ?? '', generation.config.channels)
      return channel && (await this.#questions.ask(channel, question, kinds.get(work.kind)?.largestAnswer))
    } finally {
      generation.leave()
    }
  }
}

function isFound(answer: ChannelAnswer | undefined): answer is ChannelAnswer {
  return answer !== undefined && answer.status >= 200 && answer.status < 300
}
