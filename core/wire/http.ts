// What is taken of Node's HTTP by those that write HTTP themselves, or serve a few requests.

/**
 * Not imported: that would load all of Node's own client, of which the module exports a part; 45 ms of CPU at each
 * start.
 */
export const { createServer, METHODS, STATUS_CODES } = process.getBuiltinModule('node:http')
