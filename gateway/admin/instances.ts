/** `/instances`: this instance and its peers; `POST /invalidate`: a command to all instances. */
import { nameFrom } from './explain.js';
import { noAuthority, unknownAuthority } from './known-authority.js';
import { failure, json, type AdminContext, type AdminRequest, type Reply } from './reply.js';

export function instances({ gateway }: AdminContext): Reply {
  const { peers, exchange } = gateway;
  return json(200, {
    instance: peers.instance,
    nats: exchange ? (exchange.isConnected ? 'connected' : 'not connected') : 'not configured',
    ...(exchange ? { subject: exchange.subject } : {}),
    // Equal at up-to-date instances whose clients have the same subscriptions.
    holds: peers.digest(),
  });
}

export function invalidate(context: AdminContext, { query }: AdminRequest): Reply {
  const text = query.get('name');
  const authority = query.get('authority');
  if (authority !== null && text === null) return invalidateAuthority(context, authority);
  if (text === null || authority !== null) {
    return failure(400, 'set either ?name=URN or ?authority=AUTHORITY');
  }
  const named = nameFrom(text);
  if (!named.ok) return failure(400, named.message);
  const { name, typeUrl } = named;
  const isKnown = context.gateway.upstream.view.groupFor(name) !== undefined;
  if (!isKnown) return noAuthority(context, name.authority);
  const isAsked = context.gateway.peers.invalidate(typeUrl, name);
  return done(context, { name: name.key }, isAsked);
}

function invalidateAuthority(context: AdminContext, authority: string): Reply {
  const unknown = unknownAuthority(context, authority);
  if (unknown) return unknown;
  const names = context.gateway.peers.invalidateAuthority(authority);
  return done(context, { authority }, names > 0);
}

function done(
  { gateway, telemetry }: AdminContext,
  what: Readonly<Record<string, string>>,
  askedHere: boolean,
): Reply {
  const toldOthers = gateway.exchange?.isConnected === true;
  telemetry.say('invalidated', { ...what, askedHere, toldOthers });
  return json(200, { invalidated: what, askedHere, toldOthers });
}
