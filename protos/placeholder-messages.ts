/** The two smallest messages that together make a client accept a cluster without endpoints. */
import protobuf from 'protobufjs/minimal.js';

const { Writer } = protobuf;
const DISCOVERY_TYPE_EDS = 3;
const API_VERSION_V3 = 2;

/**
 * `envoy.config.cluster.v3.Cluster` of type EDS over ADS.
 * @param serviceName empty: the cluster's own name
 */
export function encodeEdsCluster(name: string, serviceName: string): Uint8Array {
  const writer = Writer.create();
  writer.uint32(0x0a).string(name).uint32(0x10).int32(DISCOVERY_TYPE_EDS);
  // eds_cluster_config { eds_config { ads {}  resource_api_version }  service_name }
  writer.uint32(0x1a).fork();
  writer.uint32(0x0a).fork();
  writer.uint32(0x1a).fork().ldelim().uint32(0x30).int32(API_VERSION_V3);
  writer.ldelim();
  if (serviceName !== '') writer.uint32(0x12).string(serviceName);
  return writer.ldelim().finish();
}

/** `envoy.config.endpoint.v3.ClusterLoadAssignment` without endpoints. */
export function encodeEmptyAssignment(clusterName: string): Uint8Array {
  return Writer.create().uint32(0x0a).string(clusterName).finish();
}
