// Loaded into a process before its program: answers each message of its parent with all that it has loaded, addresses of
// files and names of Node's modules.
import { registerHooks } from 'node:module'
import { isMainThread } from 'node:worker_threads'

const files = []
registerHooks({
  load(url, context, next) {
    files.push(url)
    return next(url, context)
  }
})
if (isMainThread) process.on('message', () => process.send([...files, ...process.moduleLoadList]))
