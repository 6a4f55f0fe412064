// Runs `node <arguments>` with a Node that can run this project, and with its dependencies installed; both are fetched
// when missing. Written in plain JavaScript for Node 16 and later, because an older Node may run it. Called by the
// scripts of package.json:
// node .tools/node.mjs [--bare] [--install FOLDER]… <file or node option> [arguments]
// `--bare`: packages that only tests and checks need are not installed.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const cache = join(root, '.cache')
/** The oldest version that can run the code, and the version to fetch when the present one is older. */
const oldest = [24, 16]
const fetched = '24.21.0'

const args = process.argv.slice(2)
const bare = args[0] === '--bare' && args.shift() !== undefined
const folders = [root]
while (args[0] === '--install') folders.push(join(root, args.splice(0, 2)[1]))

/** An error that ends the program. Its message is for people. */
class Failure extends Error {}

try {
  const node = suffices(process.versions.node) ? process.execPath : fetchedNode()
  const env = { ...process.env, PATH: dirname(node) + delimiter + (process.env.PATH || '') }
  // Seconds that a file of tests may take unless it says otherwise. Only one that hangs takes that long, even on a busy
  // machine.
  if (!bare) env.TAP_TIMEOUT = env.TAP_TIMEOUT || '600'
  // The library would remove the folder of a test while gateways that the test has started still write there.
  if (!bare) env.TAP_SAVE_FIXTURE = '1'
  env.NODE_COMPILE_CACHE = env.NODE_COMPILE_CACHE || join(cache, 'compile')
  for (const folder of folders) installDependencies(folder, env)
  run(node, args, env)
} catch (error) {
  if (!(error instanceof Failure)) throw error
  fail(error.message)
}

function suffices(version) {
  const [major, minor] = version.split('.').map(Number)
  return major > oldest[0] || (major === oldest[0] && minor >= oldest[1])
}

/** The Node in .cache. npm installs it on first use, and checks it against the registry's digest. */
function fetchedNode() {
  const platform = process.platform === 'win32' ? 'win' : process.platform
  // In the registry, Node for Apple silicon has a name of its own.
  const name = `node-${platform === 'darwin' && process.arch === 'arm64' ? 'bin-' : ''}${platform}-${process.arch}`
  const prefix = join(cache, 'node')
  const file = join(prefix, 'node_modules', name, 'bin', platform === 'win' ? 'node.exe' : 'node')
  if (works(file)) return file
  alone(() => {
    if (works(file)) return
    say(
      `This needs Node ${oldest.join('.')} or later and runs on ${process.versions.node}: fetching Node ${fetched} into .cache/node …`
    )
    mkdirSync(prefix, { recursive: true })
    const done = npm(
      [
        'install',
        '--prefix',
        prefix,
        '--no-save',
        '--no-package-lock',
        '--no-fund',
        '--no-audit',
        '--loglevel=error',
        `${name}@${fetched}`
      ],
      root,
      process.env
    )
    if (!done || !works(file))
      throw new Failure(
        `Node ${fetched} could not be had from npm for ${process.platform} ${process.arch}. Install Node 24 (https://nodejs.org) and try again.`
      )
  })
  return file
}

function works(file) {
  const { stdout } = existsSync(file) ? spawnSync(file, ['--version'], { encoding: 'utf8' }) : { stdout: '' }
  return suffices(String(stdout).trim().replace('v', ''))
}

/** Installs the packages of a folder's lock file, unless they are installed. */
function installDependencies(folder, env) {
  if (isInstalled(folder)) return
  alone(() => {
    if (isInstalled(folder)) return
    const omit = bare ? ['--omit=dev'] : []
    say(
      `Installing dependencies (${['npm ci', ...omit].join(' ')}${folder === root ? '' : ` in ${folder.slice(root.length + 1)}`}) …`
    )
    if (!npm(['ci', ...omit, '--no-fund', '--no-audit', '--loglevel=error'], folder, env))
      throw new Failure(`npm ci failed in ${folder}: its messages stand above.`)
  })
}

/**
 * npm writes both files at the same time when it installs, so a newer lock file comes from elsewhere. After an
 * installation without development packages, the tools are missing.
 */
function isInstalled(folder) {
  const installed = join(folder, 'node_modules', '.package-lock.json')
  if (
    !existsSync(installed) ||
    statSync(installed).mtimeMs < statSync(join(folder, 'package-lock.json')).mtimeMs - 2000
  )
    return false
  return bare || toolsOf(folder).every((name) => existsSync(join(folder, 'node_modules', name)))
}

/** The packages that only tests and checks need. */
function toolsOf(folder) {
  return Object.keys(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).devDependencies || {})
}

/**
 * Runs npm with the Node that comes first in `env`. Its output goes to standard error, because it is not part of the
 * program's output.
 */
function npm(parameters, cwd, env) {
  const cli = process.env.npm_execpath
  const options = { cwd, env, stdio: ['ignore', 2, 2] }
  const { status } =
    cli && cli.endsWith('.js')
      ? spawnSync('node', [cli, ...parameters], options)
      : spawnSync('npm', parameters, { ...options, shell: process.platform === 'win32' })
  return status === 0
}

/** Runs work under a lock, so that two commands that start together do not install at the same time. */
function alone(work) {
  const lock = join(cache, 'install.lock')
  mkdirSync(cache, { recursive: true })
  for (let turn = 0; !take(lock); turn++) {
    if (turn === 5) say('Waiting for another command that installs …')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
  }
  try {
    work()
  } finally {
    rmSync(lock, { force: true })
  }
}

function take(lock) {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
  try {
    const owner = Number(readFileSync(lock, 'utf8'))
    if (owner > 0) process.kill(owner, 0)
  } catch (error) {
    // The owner of the lock has ended, so the lock is void.
    if (error.code === 'ESRCH') rmSync(lock, { force: true })
  }
  return false
}

/** Runs the command, and ends as it ends. */
function run(node, parameters, env) {
  const child = spawn(node, parameters, { stdio: 'inherit', env })
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    process.on(signal, () => {
      // A terminal sends Ctrl-C to the child too, and the child would take a second one to mean "at once".
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal)
    })
  }
  child.on('error', (error) => fail(`${node} could not be run: ${error.message}`))
  child.on('exit', (code, signal) => {
    process.exitCode = code === null ? 128 + (constants.signals[signal] || 0) : code
  })
}

function say(text) {
  process.stderr.write(`${text}\n`)
}

function fail(text) {
  say(text)
  process.exitCode = 1
}
