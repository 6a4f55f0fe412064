// The module that the writer thread runs.
import { serve } from '../threads/service.ts'
import { StoreWriter } from './writer-thread.ts'
import type { WriterOptions } from './feed.ts'
import type { WriterMessage } from './writer-thread.ts'

serve((options: WriterOptions, say: (message: WriterMessage) => void) => new StoreWriter(options, say))
