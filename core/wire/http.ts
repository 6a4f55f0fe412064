// The parts of Node's HTTP module for code that writes HTTP itself or serves few requests.

/** Not imported: an import would also load Node's HTTP client, which takes 45 ms of CPU at each start. */
export const { createServer, METHODS, STATUS_CODES } = process.getBuiltinModule('node:http')
