// Makes dist/ for the published command: the program in few files (Node does not strip types in node_modules, and a
// thousand modules would take half of the time of a start), the types of what plugins import, the console bundled, and
// the schema of PostgreSQL. Whether the types are right is for `npm run check`: looking again takes four times as long.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { bundlePackage } from './package.ts'
import { bundleConsole } from './console.ts'

const root = join(import.meta.dirname, '..')
const dist = join(root, 'dist')
// Files that were removed from the source must not be published any more.
rmSync(dist, { recursive: true, force: true })
const { status } = spawnSync(
  process.execPath,
  [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.build.json'],
  { cwd: root, stdio: 'inherit' }
)
if (status === 0) {
  for (const { path, contents } of await bundlePackage(dist)) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, contents)
  }
  chmodSync(join(dist, 'core/bin.cjs'), 0o755)
  cpSync(join(root, 'core/store/cluster/schema'), join(dist, 'core/store/cluster/schema'), { recursive: true })
  await bundleConsole(join(dist, 'core/admin/console/built'))
}
process.exitCode = status ?? 1
