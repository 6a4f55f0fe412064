// Authenticates a request: finds the caller of its key, and checks the key's endpoints and models.
import { definePlugin, digestOf, GatewayError, retirementHeaders, unknownModel } from '../../core/contract/contract.ts'
import type { Awaitable, Exchange, Model, Reason } from '../../core/contract/contract.ts'
import { caller } from '../../core/contract/slots.ts'
import type { Caller } from '../../core/catalogue/caller.ts'
import { presentedKey } from './credential.ts'

export default definePlugin({
  name: 'auth',
  summary: 'Finds the caller by the key presented, and refuses endpoints and models that the key may not use.',
  options: {},
  reads: 'head',
  rehearses: true,
  provides: [caller],
  setup(_config, { catalogue }) {
    const known = new WeakMap<Model, ReturnType<typeof retirementHeaders>>()
    /** The headers that tell of the retirement of a model; undefined where there is no such model. */
    const retirementOf = (name: string): ReturnType<typeof retirementHeaders> | undefined => {
      const model = catalogue.models.get(name)
      if (!model) return undefined
      let headers = known.get(model)
      if (!headers) known.set(model, (headers = retirementHeaders(model)))
      return headers
    }

    /**
     * Models that are unknown and models that the key may not use get the same answer, so that their names stay hidden.
     */
    const checkModel = (exchange: Exchange, found: Caller): void => {
      const { model, requestedModel } = exchange
      if (model === '') return
      const own = retirementOf(model)
      if (!own || !found.mayUse(model)) throw unknownModel(model, modelReason(found, model))
      // A client that asks for a retiring model must be told, even when a plugin replaced the model by another one.
      const asked = model !== requestedModel && found.mayUse(requestedModel) ? retirementOf(requestedModel) : undefined
      for (const [header, value] of asked?.length ? asked : own) exchange.setHeader(header, value)
    }

    const unknownKey = (digest: Buffer): GatewayError =>
      new GatewayError('invalid_api_key', 'The API key is not valid.', { reason: catalogue.whyNoKey(digest) })

    /** Why a model is refused, for operators. */
    const modelReason = (found: Caller, model: string): Reason => {
      if (retirementOf(model)) return found.whyNot('model', model)
      return {
        by: 'model',
        what: `there is no model ${model.slice(0, 128)}`,
        where: 'models',
        remedy: 'add it there, and to the models of a channel'
      }
    }

    /** Admits the caller with the key that the exchange has, or that was chosen for it. */
    const admit = (exchange: Exchange): Awaitable<void> => {
      const { request, rehearsal, sponsor } = exchange
      const chosen = rehearsal?.key ?? sponsor?.key
      const key = chosen ? '' : presentedKey(request)
      const begin = (found: Caller | undefined): Awaitable<void> => {
        if (!found) throw unknownKey(chosen ?? digestOf(key))
        exchange.set(caller, found)
        checkKey(found, exchange, exchange.receivedAt)
        // The body is read only now, so that a client without a key cannot make the gateway hold one.
        const body = exchange.read()
        return body instanceof Promise ? body.then(() => checkModel(exchange, found)) : checkModel(exchange, found)
      }
      const found = chosen ? catalogue.findKey(chosen) : catalogue.findPresented(key)
      return found instanceof Promise ? found.then(begin) : begin(found)
    }

    const checkKey = (found: Caller, { request }: Exchange, now: number): void => {
      const { expires } = found
      if (expires !== undefined && expires <= now)
        throw new GatewayError('expired_api_key', `The API key expired on ${new Date(expires).toISOString()}.`, {
          reason: found.whyNot('time', '')
        })
      const { endpoint } = request.operation
      if (!found.mayCall(endpoint))
        throw new GatewayError('endpoint_not_allowed', `This API key may not call the endpoint ${endpoint}.`, {
          reason: found.whyNot('endpoint', endpoint)
        })
    }

    return {
      onRequest: admit,

      whileOpen(exchange) {
        // A client secret is valid for some minutes only. A session that is open depends on the key that made the
        // secret.
        const opened = exchange.find(caller)
        if (!opened) return
        const found = catalogue.findKey(opened.secret?.issuer ?? opened.digest)
        if (!found) throw unknownKey(opened.secret?.issuer ?? opened.digest)
        checkKey(found, exchange, Date.now())
        const { model, request } = exchange
        if (model === '' || found === opened) return
        // A session makes new requests of its model; any other answer was begun when there was such a model.
        const isThere = !request.operation.metering?.turns || retirementOf(model) !== undefined
        if (!isThere || !found.mayUse(model)) throw unknownModel(model, modelReason(found, model))
      }
    }
  }
})
