/** The addresses in a gRPC target (gRPC naming), for a source that speaks HTTP/1.1. */

export type RestEndpoint =
  { readonly host: string; readonly port: number } | { readonly socketPath: string };

/** `host`, `host:port`, `[v6]` or `[v6]:port`. */
const HOST_PORT = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/;

/**
 * @param target `host:port`, `dns:[//server/]host:port`, `ipv4:a:1,b:2`, `ipv6:[a]:1,[b]:2`,
 * `unix:path`, `unix:///path` or `unix-abstract:name`
 * @param defaultPort for addresses without a port
 * @returns the addresses in order; undefined: not such a target
 */
export function restEndpointsOf(
  target: string,
  defaultPort: number,
): readonly RestEndpoint[] | undefined {
  const scheme = /^(unix-abstract|unix|dns|ipv4|ipv6):/.exec(target)?.[1];
  const rest = scheme === undefined ? target : target.slice(scheme.length + 1);
  if (scheme === 'unix') return [{ socketPath: rest.replace(/^\/\/(?=\/)/, '') }];
  if (scheme === 'unix-abstract') return [{ socketPath: `\0${rest}` }];
  // A DNS server of the target is left to the system's resolver.
  const list = scheme === 'dns' ? [rest.replace(/^\/\/[^/]*\//, '')] : rest.split(',');
  const endpoints = list.map((text) => {
    const found = HOST_PORT.exec(text);
    const host = found?.[1] ?? found?.[2];
    if (host === undefined) return undefined;
    return { host, port: Number(found?.[3] ?? defaultPort) };
  });
  const known = endpoints.filter((one) => one !== undefined);
  return known.length === endpoints.length && known.length > 0 ? known : undefined;
}
