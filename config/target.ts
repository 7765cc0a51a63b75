/** Checks the address of a server, a gRPC target (gRPC naming): `host:port`, `unix:…`, `ipv4:…`, `dns:…`. */
import type { Cursor } from './cursor.js';

/** `${NAME}`, `$NAME` or `{{ … }}`: other programs replace them, the gateway does not. */
export const variableIn = (text: string): string | undefined =>
  /\$\{[^}]*\}|\$[A-Za-z_]\w*|\{\{.*?\}\}/.exec(text)?.[0];

interface Finding {
  readonly message: string;
  readonly remedy?: string;
  readonly isWarning?: true;
}

/** @returns the target as written; undefined after a problem, or without text */
export function readTarget(at: Cursor): string | undefined {
  const target = at.string();
  if (target === undefined || target === '') return undefined;
  const finding = findingOf(target);
  if (finding === undefined) return target;
  if (finding.isWarning) {
    at.warn(finding.message, finding.remedy);
    return target;
  }
  at.problem(finding.message, finding.remedy);
  return undefined;
}

function findingOf(target: string): Finding | undefined {
  const variable = variableIn(target);
  if (variable !== undefined) {
    const message = `${variable} is a variable, and the gateway replaces none`;
    return { message, remedy: 'write the address itself' };
  }
  if (/\s/.test(target)) return { message: 'must not contain white space' };
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(target)?.[1]?.toLowerCase();
  if (scheme === 'http' || scheme === 'https' || scheme === 'grpc' || scheme === 'grpcs') {
    const address = target.replace(/^[^:]+:\/\//, '').replace(/\/.*$/, '');
    return { message: 'is a URL, not a gRPC target', remedy: `write "${address}"` };
  }
  const list = /^(ipv4|ipv6):(?:\/\/\/?)?(.*)$/.exec(target)?.[2];
  if (list !== undefined) return firstFinding(list.split(',').map(findingOfAddress));
  const dns = /^dns:(?:\/\/[^/]*\/)?(.*)$/.exec(target)?.[1];
  if (dns !== undefined) return findingOfAddress(dns);
  // Other resolvers, such as `unix:`, have no ports.
  if (/^(unix|unix-abstract|vsock|xds|passthrough):|^[a-z]+:\/\//.test(target)) return undefined;
  return findingOfAddress(target);
}

const firstFinding = (findings: readonly (Finding | undefined)[]): Finding | undefined =>
  findings.find((finding) => finding && !finding.isWarning) ??
  findings.find((finding) => finding !== undefined);

function findingOfAddress(address: string): Finding | undefined {
  const [, host, port] = /^(\[[^\]]*\]|[^:[\]]*)(?::([^:]*))?$/.exec(address) ?? [];
  if (host === undefined) {
    const remedy = 'write host:port, and an IPv6 address as [address]:port';
    return { message: `${JSON.stringify(address)} is not an address`, remedy };
  }
  if (host === '' || host === '[]') return { message: 'has no host', remedy: 'write host:port' };
  if (port === undefined) {
    return { message: 'has no port: gRPC takes 443', remedy: 'write host:port', isWarning: true };
  }
  const isPort = /^\d{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65_535;
  if (isPort) return undefined;
  const shown = port === '' ? 'the port is missing after the colon' : `${port} is not a port`;
  return { message: shown, remedy: 'write a port from 1 to 65535' };
}
