// The plugin contract: everything that a plugin may use of core. Plugins import nothing else from core.
export { elementsOf, stringEnd } from '../bodies/elements.ts'
export { numberOrDigits } from '../bodies/fields.ts'
export { Watch } from '../bodies/lens.ts'
export { withEachCredential } from '../catalogue/account.ts'
export { digestOf } from '../catalogue/caller.ts'
export { compileGlobs } from '../catalogue/globs.ts'
export { retirementHeaders } from '../catalogue/retirement.ts'
export { toldLimits } from '../protocols/told/limits.ts'
export { Keys } from './secrets.ts'
export { GatewayError, unknownModel } from '../errors.ts'
export type { BudgetReason, LimitReason, Reason, RuleReason } from '../errors.ts'
export { formatDollars } from '../money/money.ts'
export { costOf, inForce, isFree, isPriced, rounded } from '../money/price.ts'
export { counters, priceClasses, pricedClasses } from '../money/classes.ts'
export { inTurns } from '../bodies/turns.ts'
export { chargeFor, doubted, uncomputed } from '../money/settlement.ts'
export { completionTokens, limitedTokens, noUsage, promptTokens, renderUsage, sumOf } from '../money/usage.ts'
export type { Attempt } from './attempt.ts'
export { Candidates } from './candidates.ts'
export type { Exclusion, Why } from './candidates.ts'
export type { Channel, Model } from '../catalogue/catalogue.ts'
export { countersOf, formFor } from './operation.ts'
export { otherwise } from './otherwise.ts'
export { labelOf } from '../catalogue/models.ts'
export { modelsFor } from './stand-ins.ts'
export type { Awaitable, ClientRequest, Exchange, Outcome } from './exchange.ts'
export type { AttemptFailure, Hooks, Reply, Standing, StreamReply, UpstreamResponse, WholeReply } from './hooks.ts'
export type { ChannelHealth, CredentialHealth, LimitLeft } from './health.ts'
export { Message } from './message.ts'
export type { Allowance } from '../allowance.ts'
export { contractOf, contractVersion, definePlugin, sharedKey } from './plugin.ts'
export type { Plugin, PluginCache, PluginContext, PluginDefinition, SharedKey } from './plugin.ts'
export { recordOf } from './record.ts'
export type { Quote, QuoteLine, Rehearsal } from './rehearsal.ts'
export {
  answered,
  caller,
  charge,
  dropped,
  goingOn,
  quote,
  recalledInput,
  reservation,
  slot,
  spent,
  usage
} from './slots.ts'
export type { AnySlot, Charge, GoingOn, MeteredUsage, RecalledInput, Slot } from './slots.ts'
export type { AttemptCost, BudgetStanding, Ledger, Reservation, ReserveRequest, Settlement } from '../store/ledger.ts'
export type { LimitStanding } from '../store/limits.ts'
export type { Turn } from './turn.ts'
export type { Emit, Mapper, Observer, Stage, Takes, TextBlock, TextKind, TextPart, TextStage } from './stage.ts'

export { codecNameOf, upstreamCodecNameOf } from '../protocols/translation/codecs.ts'
export type { CodecName, UpstreamCodecName } from '../protocols/translation/codecs.ts'
export { translateEmbeddings, translatesEmbeddings } from '../protocols/embeddings/translate.ts'
export type { TranslatedEmbeddings } from '../protocols/embeddings/translate.ts'
export { planOf, translateRequest, translateWhole, unsealRequest } from '../protocols/translation/request-bytes.ts'
export type {
  AnswerTask,
  RequestTask,
  TranslatedAnswer,
  TranslatedRequest
} from '../protocols/translation/request-bytes.ts'
export { mayBeSealed, sealedMembers, StreamTranslation, Untranslatable } from '../protocols/translation/translation.ts'
export type {
  AnswerHead,
  AnswerTranslation,
  Keepsake,
  UntranslatableCode
} from '../protocols/translation/translation.ts'
