// The table of all commands.
import { exportAudit, listAudit } from './audit.ts'
import { listChannels, switchChannel, testChannel } from './channels.ts'
import { check } from './check.ts'
import type { Command } from './command/command.ts'
import { completionCommand } from './completion.ts'
import { diff } from './diff.ts'
import { explain as explainRequest } from './explain.ts'
import { health } from './health.ts'
import { importLitellm } from './import/litellm.ts'
import { importNewApiCommand } from './import/new-api.ts'
import { init } from './init.ts'
import { changeKey, createKey, listKeys, revokeKey, rotateKey } from './keys.ts'
import { backupLedger } from './ledger/ledger-backup.ts'
import { moveLedger } from './ledger/ledger-move.ts'
import { reconcileLedger } from './ledger/ledger-reconcile.ts'
import { repairLedger } from './ledger/ledger-repair.ts'
import { restoreLedger } from './ledger/ledger-restore.ts'
import { exportLedger, showBalances, verifyLedger } from './ledger/ledger.ts'
import { levelCommands } from './levels.ts'
import { operatorCommands } from './operators.ts'
import { listPlugins } from './plugins.ts'
import { rollbackConfig, showHistory } from './rollback.ts'
import { showSpend } from './spend.ts'
import { start } from './start.ts'
import { upgradeGateway } from './upgrade.ts'

/** All commands, in the order of the help. */
export const commands: readonly Command[] = [
  init,
  start,
  health,
  upgradeGateway,
  check,
  diff,
  showHistory,
  rollbackConfig,
  explainRequest,
  listPlugins,
  createKey,
  listKeys,
  changeKey,
  rotateKey,
  revokeKey,
  ...levelCommands,
  listChannels,
  switchChannel,
  testChannel,
  ...operatorCommands,
  listAudit,
  exportAudit,
  verifyLedger,
  showBalances,
  exportLedger,
  backupLedger,
  repairLedger,
  restoreLedger,
  moveLedger,
  reconcileLedger,
  showSpend,
  importLitellm,
  importNewApiCommand,
  completionCommand(() => commands)
]
