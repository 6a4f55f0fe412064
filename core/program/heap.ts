// Sets up the JavaScript heap for a program with many objects that live as long as one exchange.
import { setFlagsFromString } from 'node:v8'

/**
 * V8 notices which places of the code make long-lived objects, and then puts all objects of those places into the old
 * space at once. Streams that stay open cause this for the parts of every exchange. Such parts, once dead, keep the
 * young objects that they refer to alive until a full collection, so each young collection copies thousands of finished
 * exchanges. Without this guess a young collection takes 0.5 ms instead of 20 (measured with `--trace-gc` under the
 * load of bench J1). This file must be imported first.
 */
setFlagsFromString('--no-allocation-site-pretenuring')
