// The parts of Node's HTTP module for code that writes HTTP itself or serves few requests.

/**
 * Not imported: an import reads every export of the module, and so loads a second HTTP client and the web's streams and
 * sockets, which takes 25 ms of CPU and 13 MB at each start.
 */
export const { createServer, METHODS, request, STATUS_CODES } = process.getBuiltinModule('node:http')
