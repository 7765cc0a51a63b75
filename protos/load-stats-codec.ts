/**
 * Decodes and encodes load reports (`LoadStatsRequest`, `LoadStatsResponse`). Written by hand, not with
 * the descriptors of `envoy-registry.ts`: the decoder counts entries before it keeps them, so that 4 MiB
 * of empty messages do not become millions of objects; addresses and metadata stay opaque; and the first
 * report does not stop the process for 0.1 s to load the descriptors.
 */
import protobuf from 'protobufjs/minimal.js';
import {
  closeAt,
  decode,
  decodeAtOnce,
  decodeInPortions,
  eachField,
  eachFieldOfMessage,
  readText,
  subReader,
  TooMany,
  wireTypeOf,
  type Decoding,
  type FieldReading,
  type Reader,
} from './discovery-fields.js';
import type { Decoded } from './discovery.js';
import {
  MAX_COUNT,
  type ClusterLoad,
  type ConnectionCounts,
  type EndpointLoad,
  type LoadStatsRequest,
  type LoadStatsResponse,
  type Locality,
  type LocalityLoad,
  type MetricSum,
  type RequestCounts,
  type Utilization,
} from './load-stats.js';
import { readLocality } from './node-codec.js';

const { Writer } = protobuf;

/** Decoded in one portion: some milliseconds. A count. */
const CLUSTERS_PER_PORTION = 1_000;

const MS_PER_SECOND = 1_000;
const NANOS_PER_MS = 1_000_000;

/** Fields of `UpstreamLocalityStats`. */
const LOCALITY_REQUESTS = { successful: 2, inProgress: 3, failed: 4, issued: 8 } as const;
const CONNECTIONS = { active: 9, opened: 10, failed: 11 } as const;
const UTILIZATIONS = { cpu: 12, memory: 13, application: 14 } as const;
/** Fields of `UpstreamEndpointStats`. */
const ENDPOINT_REQUESTS = { successful: 2, inProgress: 3, failed: 4, issued: 7 } as const;

type Long = ReturnType<Reader['uint64']>;
type FieldNumbers<Counts> = Readonly<Record<keyof Counts, number>>;

const tagOf = (field: number, wire: number): number => (field << 3) | wire;
const VARINT = 0;
const BYTES = 2;

/** Counts the entries of one report: clusters, localities, endpoints, metrics and categories. */
class EntryBudget {
  #left: number;
  readonly #max: number;

  constructor(max: number) {
    this.#left = max;
    this.#max = max;
  }

  take(): void {
    if (this.#left-- <= 0) throw new TooMany(`a load report has more than ${this.#max} entries`);
  }
}

/**
 * Decodes a `LoadStatsRequest`. The result keeps no view of `bytes`, except `node`.
 *
 * @param maxEntries clusters, localities, endpoints, metrics and categories together; with more the
 * result is `too_many`
 */
export const decodeLoadStatsRequest = (
  bytes: Uint8Array,
  maxEntries: number,
): Decoded<LoadStatsRequest> => decodeAtOnce(bytes, requestFields(maxEntries));

/** The same in portions of 1,000 clusters. */
export const decodingLoadStatsRequest = (
  bytes: Uint8Array,
  maxEntries: number,
): Decoding<LoadStatsRequest> =>
  decodeInPortions(bytes, requestFields(maxEntries), CLUSTERS_PER_PORTION);

const requestFields =
  (maxEntries: number): FieldReading<LoadStatsRequest> =>
  (reader) => {
    const budget = new EntryBudget(maxEntries);
    const clusters: ClusterLoad[] = [];
    const message: { node: Uint8Array | undefined; readonly clusters: ClusterLoad[] } = {
      node: undefined,
      clusters,
    };
    const readField = (tag: number): boolean => {
      if (tag === 0x0a) message.node = readView(reader);
      else if (tag === 0x12) clusters.push(readCluster(reader, budget));
      else reader.skipType(wireTypeOf(tag));
      return tag === 0x12;
    };
    return { message, readField };
  };

/** @param maxClusters with more names the result is `too_many` */
export function decodeLoadStatsResponse(
  bytes: Uint8Array,
  maxClusters: number,
): Decoded<LoadStatsResponse> {
  const budget = new EntryBudget(maxClusters);
  return decode(bytes, (reader) => {
    const names: string[] = [];
    const read = { isAll: false, intervalMs: 0, byEndpoint: false };
    eachField(reader, reader.len, (tag) => {
      if (tag === 0x0a) {
        budget.take();
        names.push(readText(reader));
      } else if (tag === 0x12) read.intervalMs = readDuration(reader);
      else if (tag === 0x18) read.byEndpoint = reader.bool();
      else if (tag === 0x20) read.isAll = reader.bool();
      else return false;
      return true;
    });
    const { isAll, ...rest } = read;
    return { clusters: isAll ? 'all' : names, ...rest };
  });
}

export function encodeLoadStatsResponse(response: LoadStatsResponse): Uint8Array {
  const { clusters, intervalMs, byEndpoint } = response;
  const writer = Writer.create();
  if (clusters !== 'all') for (const name of clusters) writer.uint32(0x0a).string(name);
  writeDuration(writer.uint32(0x12), intervalMs);
  if (byEndpoint) writer.uint32(0x18).bool(true);
  if (clusters === 'all') writer.uint32(0x20).bool(true);
  return writer.finish();
}

/** @param request without a `node`: not the first one of its stream */
export function encodeLoadStatsRequest({ node, clusters }: LoadStatsRequest): Uint8Array {
  const writer = Writer.create();
  if (node) writer.uint32(0x0a).bytes(node);
  for (const cluster of clusters) writeCluster(writer.uint32(0x12), cluster);
  return writer.finish();
}

/** Adds a client feature (`Node.client_features`) to an encoded Node. */
export function withClientFeature(node: Uint8Array, feature: string): Uint8Array {
  // Protobuf: the concatenation of two messages is their merge.
  return Buffer.concat([node, Writer.create().uint32(0x52).string(feature).finish()]);
}

// ---- reading --------------------------------------------------------------------------------

/** The bytes of a field, as a view of the message. */
function readView(reader: Reader): Uint8Array {
  const start = reader.pos;
  const { end } = subReader(reader);
  reader.pos = start;
  const view = reader.bytes();
  closeAt(reader, end);
  return view;
}

/** A view would pin the whole report for as long as its sums live. */
const readCopy = (reader: Reader): Uint8Array => Uint8Array.from(readView(reader));

function readCount(reader: Reader): number {
  return Math.min(numberOf(reader.uint64()), MAX_COUNT);
}

/** protobufjs returns a Long if that package is there. `Number` of a Long would go through its text. */
function numberOf(value: number | Long): number {
  if (typeof value === 'number') return value;
  const high = value.unsigned ? value.high >>> 0 : value.high;
  return high * 2 ** 32 + (value.low >>> 0);
}

function readCluster(reader: Reader, budget: EntryBudget): ClusterLoad {
  budget.take();
  let clusterName = '';
  let serviceName = '';
  let dropped = 0;
  let intervalMs = 0;
  const localities: LocalityLoad[] = [];
  const droppedBy = new Map<string, number>();
  eachFieldOfMessage(reader, (tag) => {
    if (tag === 0x0a) clusterName = readText(reader);
    else if (tag === 0x12) localities.push(readLocalityLoad(reader, budget));
    else if (tag === 0x18) dropped = readCount(reader);
    else if (tag === 0x22) intervalMs = readDuration(reader);
    else if (tag === 0x2a) readDropped(reader, budget, droppedBy);
    else if (tag === 0x32) serviceName = readText(reader);
    else return false;
    return true;
  });
  return { clusterName, serviceName, localities, dropped, droppedBy, intervalMs };
}

function readDropped(reader: Reader, budget: EntryBudget, droppedBy: Map<string, number>): void {
  budget.take();
  let category = '';
  let count = 0;
  eachFieldOfMessage(reader, (tag) => {
    if (tag === 0x0a) category = readText(reader);
    else if (tag === 0x10) count = readCount(reader);
    else return false;
    return true;
  });
  droppedBy.set(category, Math.min(MAX_COUNT, (droppedBy.get(category) ?? 0) + count));
}

function readLocalityLoad(reader: Reader, budget: EntryBudget): LocalityLoad {
  budget.take();
  let locality: Locality = { region: '', zone: '', subZone: '' };
  let priority = 0;
  const requests: RequestCounts = { successful: 0, failed: 0, issued: 0, inProgress: 0 };
  const connections: ConnectionCounts = { opened: 0, failed: 0, active: 0 };
  const metrics = new Map<string, MetricSum>();
  const utilizations = new Map<Utilization, MetricSum>();
  const endpoints: EndpointLoad[] = [];
  eachFieldOfMessage(reader, (tag) => {
    if (tag === 0x0a) locality = readLocality(reader);
    else if (tag === 0x2a) readMetric(reader, budget, metrics);
    else if (tag === 0x30) priority = reader.uint32();
    else if (tag === 0x3a) endpoints.push(readEndpoint(reader, budget));
    else {
      return (
        takeCount(reader, tag, LOCALITY_REQUESTS, requests) ||
        takeCount(reader, tag, CONNECTIONS, connections) ||
        takeUtilization(reader, tag, utilizations)
      );
    }
    return true;
  });
  return { locality, priority, requests, connections, metrics, utilizations, endpoints };
}

function readEndpoint(reader: Reader, budget: EntryBudget): EndpointLoad {
  budget.take();
  let address: Uint8Array = new Uint8Array();
  let metadata: Uint8Array | undefined;
  const requests: RequestCounts = { successful: 0, failed: 0, issued: 0, inProgress: 0 };
  const metrics = new Map<string, MetricSum>();
  eachFieldOfMessage(reader, (tag) => {
    if (tag === 0x0a) address = readCopy(reader);
    else if (tag === 0x2a) readMetric(reader, budget, metrics);
    else if (tag === 0x32) metadata = readCopy(reader);
    else return takeCount(reader, tag, ENDPOINT_REQUESTS, requests);
    return true;
  });
  return { address, ...(metadata ? { metadata } : {}), requests, metrics };
}

/** @returns whether the field is one of `fields`, and was read */
function takeCount<Counts extends Record<keyof Counts, number>>(
  reader: Reader,
  tag: number,
  fields: FieldNumbers<Counts>,
  counts: Counts,
): boolean {
  for (const name of Object.keys(fields) as (keyof Counts)[]) {
    if (tag !== tagOf(fields[name], VARINT)) continue;
    counts[name] = readCount(reader) as Counts[keyof Counts];
    return true;
  }
  return false;
}

function takeUtilization(
  reader: Reader,
  tag: number,
  utilizations: Map<Utilization, MetricSum>,
): boolean {
  for (const name of Object.keys(UTILIZATIONS) as Utilization[]) {
    if (tag !== tagOf(UTILIZATIONS[name], BYTES)) continue;
    let finished = 0;
    let total = 0;
    eachFieldOfMessage(reader, (inner) => {
      if (inner === 0x08) finished = readCount(reader);
      else if (inner === 0x11) total = reader.double();
      else return false;
      return true;
    });
    utilizations.set(name, { finished, total });
    return true;
  }
  return false;
}

function readMetric(reader: Reader, budget: EntryBudget, metrics: Map<string, MetricSum>): void {
  budget.take();
  let name = '';
  let finished = 0;
  let total = 0;
  eachFieldOfMessage(reader, (tag) => {
    if (tag === 0x0a) name = readText(reader);
    else if (tag === 0x10) finished = readCount(reader);
    else if (tag === 0x19) total = reader.double();
    else return false;
    return true;
  });
  const before = metrics.get(name);
  metrics.set(name, {
    finished: Math.min(MAX_COUNT, finished + (before?.finished ?? 0)),
    total: total + (before?.total ?? 0),
  });
}

/** `google.protobuf.Duration` in milliseconds. */
function readDuration(reader: Reader): number {
  let seconds = 0;
  let nanos = 0;
  eachFieldOfMessage(reader, (tag) => {
    if (tag === 0x08) seconds = numberOf(reader.int64());
    else if (tag === 0x10) nanos = reader.int32();
    else return false;
    return true;
  });
  return seconds * MS_PER_SECOND + nanos / NANOS_PER_MS;
}

// ---- writing --------------------------------------------------------------------------------

function writeCluster(writer: protobuf.Writer, load: ClusterLoad): void {
  writer.fork().uint32(0x0a).string(load.clusterName);
  for (const locality of load.localities) writeLocalityLoad(writer.uint32(0x12), locality);
  if (load.dropped > 0) writer.uint32(0x18).uint64(load.dropped);
  writeDuration(writer.uint32(0x22), load.intervalMs);
  for (const [category, count] of load.droppedBy) {
    writer.uint32(0x2a).fork().uint32(0x0a).string(category).uint32(0x10).uint64(count).ldelim();
  }
  if (load.serviceName !== '') writer.uint32(0x32).string(load.serviceName);
  writer.ldelim();
}

function writeLocalityLoad(writer: protobuf.Writer, load: LocalityLoad): void {
  const { region, zone, subZone } = load.locality;
  writer.fork().uint32(0x0a).fork();
  if (region !== '') writer.uint32(0x0a).string(region);
  if (zone !== '') writer.uint32(0x12).string(zone);
  if (subZone !== '') writer.uint32(0x1a).string(subZone);
  writer.ldelim();
  writeCounts(writer, LOCALITY_REQUESTS, load.requests);
  writeCounts(writer, CONNECTIONS, load.connections);
  writeMetrics(writer, load.metrics);
  if (load.priority !== 0) writer.uint32(0x30).uint32(load.priority);
  for (const endpoint of load.endpoints) writeEndpoint(writer.uint32(0x3a), endpoint);
  for (const [name, { finished, total }] of load.utilizations) {
    writer.uint32(tagOf(UTILIZATIONS[name], BYTES)).fork();
    writer.uint32(0x08).uint64(finished).uint32(0x11).double(total).ldelim();
  }
  writer.ldelim();
}

function writeEndpoint(writer: protobuf.Writer, load: EndpointLoad): void {
  writer.fork().uint32(0x0a).bytes(load.address);
  writeCounts(writer, ENDPOINT_REQUESTS, load.requests);
  writeMetrics(writer, load.metrics);
  if (load.metadata) writer.uint32(0x32).bytes(load.metadata);
  writer.ldelim();
}

function writeCounts<Counts extends Record<keyof Counts, number>>(
  writer: protobuf.Writer,
  fields: FieldNumbers<Counts>,
  counts: Readonly<Counts>,
): void {
  for (const name of Object.keys(fields) as (keyof Counts)[]) {
    if (counts[name] > 0) writer.uint32(tagOf(fields[name], VARINT)).uint64(counts[name]);
  }
}

function writeMetrics(writer: protobuf.Writer, metrics: ReadonlyMap<string, MetricSum>): void {
  for (const [name, { finished, total }] of metrics) {
    writer.uint32(0x2a).fork().uint32(0x0a).string(name);
    writer.uint32(0x10).uint64(finished).uint32(0x19).double(total).ldelim();
  }
}

function writeDuration(writer: protobuf.Writer, ms: number): void {
  const wholeMs = Math.max(0, Math.round(ms));
  const seconds = Math.floor(wholeMs / MS_PER_SECOND);
  const nanos = (wholeMs % MS_PER_SECOND) * NANOS_PER_MS;
  writer.fork();
  if (seconds > 0) writer.uint32(0x08).int64(seconds);
  if (nanos > 0) writer.uint32(0x10).int32(nanos);
  writer.ldelim();
}
