/** Names of the types that Envoy subscribes, short enough to read in a test. */
import { TYPE_URL, TYPE_URL_PREFIX } from '../../protos/type-urls.js';

export const CDS = TYPE_URL.cluster;
export const EDS = TYPE_URL.clusterLoadAssignment;
export const LDS = TYPE_URL.listener;
export const RDS = TYPE_URL.routeConfiguration;
export const SDS = TYPE_URL.secret;
export const ECDS = TYPE_URL.typedExtensionConfig;

const naming =
  (typeUrl: string) =>
  (id: string, authority = 'cloud'): string =>
    `xdstp://${authority}/${typeUrl.slice(TYPE_URL_PREFIX.length)}/${id}`;

export const cds = naming(CDS);
export const eds = naming(EDS);
export const lds = naming(LDS);
export const rds = naming(RDS);
export const sds = naming(SDS);
export const ecds = naming(ECDS);
