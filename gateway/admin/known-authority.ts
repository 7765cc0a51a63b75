/** Paths `/authorities/<authority>/…`. */
import { didYouMean } from '../../config/nearest.js';
import { failure, type AdminContext, type Reply } from './reply.js';

/** The authority in a path, which may be percent-encoded. */
export function decodedAuthority(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** 404 with a correction, for a name of an authority that the map does not have. */
export function noAuthority({ gateway }: AdminContext, authority: string): Reply {
  const known = [...gateway.upstream.view.map.authorities.keys()];
  return failure(404, `no authority "${authority}" in the authority map`, {
    hint: didYouMean(authority, known),
    authorities: known,
  });
}

/** @returns 404 with a correction; undefined: the map has the authority, or the entry of old-style names */
export function unknownAuthority({ gateway }: AdminContext, authority: string): Reply | undefined {
  const { authorities, oldStyle, defaultSource } = gateway.upstream.view.map;
  const others = [...(oldStyle?.servedBy ?? []), ...(defaultSource ? [defaultSource] : [])];
  const known = [...authorities.keys(), ...others.map(({ name }) => name)];
  if (known.includes(authority)) return undefined;
  return failure(404, `no authority "${authority}" in the authority map`, {
    hint: didYouMean(authority, known),
  });
}
