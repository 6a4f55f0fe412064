// Loaded into a gateway before everything else (node --import): it dies when something that goes on without its client
// is done and not concluded. Its result is kept and its end is on disk; the exchange is not settled. In a worker its
// thread ends, and else the process.
import { isMainThread } from 'node:worker_threads'
import { Conclusions } from '../../core/exchange/background/conclusion.ts'

const { end } = Conclusions.prototype
Conclusions.prototype.end = function (work, progress, holds) {
  const done = work.channel === null && progress.status === 'succeeded' && holds === false
  if (done && isMainThread) process.kill(process.pid, 'SIGKILL')
  if (done) process.exit()
  return end.call(this, work, progress, holds)
}
