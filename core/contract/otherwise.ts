// The slot for an answer without an upstream.
import type { WholeReply } from './hooks.ts'
import { slot } from './slots.ts'

/**
 * What the client is answered when no upstream could: a plugin that can do without fills it before any is asked. Not
 * used for a client that left.
 */
export const otherwise = slot('otherwise').of<WholeReply>()
