// Makes dist/ for the published command. It contains JavaScript, because Node does not strip types in node_modules, and
// the console bundled, and the schema of PostgreSQL.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { bundleConsole } from './console.ts'

const root = join(import.meta.dirname, '..')
// Files that were removed from the source must not be published any more.
rmSync(join(root, 'dist'), { recursive: true, force: true })
const { status } = spawnSync(
  process.execPath,
  [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.build.json'],
  { cwd: root, stdio: 'inherit' }
)
if (status === 0) {
  chmodSync(join(root, 'dist/core/bin.cjs'), 0o755)
  cpSync(join(root, 'core/store/cluster/schema'), join(root, 'dist/core/store/cluster/schema'), { recursive: true })
  await bundleConsole(join(root, 'dist/core/admin/console/built'))
}
process.exitCode = status ?? 1
