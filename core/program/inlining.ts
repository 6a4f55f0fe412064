// Lets V8's optimizing compiler inline more of a program of many small functions.
import { setFlagsFromString } from 'node:v8'

/**
 * A request goes through several hundred functions, and V8 inlines no more into one of them than 920 bytes of bytecode
 * in all, and nothing above 460. With these bounds a small request takes a sixteenth less of the main thread, and with
 * five times as much in place of two and a half no less than that: see bench/LESSONS.md. More code takes 10 MB under
 * load, and a twentieth more CPU time in all until it is compiled.
 */
setFlagsFromString('--max-inlined-bytecode-size-cumulative=2500')
setFlagsFromString('--max-inlined-bytecode-size=1200')
