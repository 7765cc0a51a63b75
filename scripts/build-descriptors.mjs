/**
 * Compiles the part of the Envoy API that xDS resources can contain into one descriptor set,
 * `build/protos/envoy-descriptors.binpb`, for `protos/envoy-registry.ts`. The `.proto` files come from
 * the dev dependency @grpc/grpc-js-xds. The compiler is @bufbuild/buf, which works offline.
 *
 * The output is deterministic. The script does nothing if the output is up to date; --force rebuilds it.
 * Usage: node scripts/build-descriptors.mjs [--force]
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath, URL } from 'node:url';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  FieldOptionsSchema,
  FileDescriptorSetSchema,
  MessageOptionsSchema,
  MethodOptionsSchema,
} from '@bufbuild/protobuf/wkt';

const require = createRequire(import.meta.url);
const root = fileURLToPath(new URL('..', import.meta.url));
const target = join(root, 'build/protos/envoy-descriptors.binpb');
const stampFile = `${target}.sha256`;
const xdsPackage = dirname(require.resolve('@grpc/grpc-js-xds/package.json'));
const grpcPackage = dirname(require.resolve('@grpc/grpc-js/package.json'));
const bufPackage = require.resolve('@bufbuild/buf/package.json');

/** Import directories, in search order. buf contains google/protobuf/*. */
const includes = [
  join(root, 'protos/envoy-imports'),
  ...['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map((name) =>
    join(xdsPackage, 'deps', name),
  ),
  join(grpcPackage, 'proto'),
];

/**
 * Files whose messages a resource can be or contain, the discovery services with their methods, and the services
 * of the admin side.
 */
const rootFiles = [
  /^envoy\/service\/(cluster|endpoint|extension|listener|route|secret)\/v3\//,
  /^envoy\/(config|extensions|type)\//,
  /^envoy\/service\/(runtime|discovery)\/v3\//,
  /^xds\/(core|type)\//,
  /^udpa\/type\//,
  /^envoy\/service\/status\/v3\//,
  /^grpc\/health\/v1\//,
  /^channelz\.proto$/,
];
/** Exceptions: the old API version v2 and the bootstrap. */
const leftOut = [
  /\/v2(alpha\d*)?\//,
  /^envoy\/config\/bootstrap\//,
  /^envoy\/extensions\/(bootstrap|watchdog)\//,
  /^envoy\/type\/[a-z_]+\.proto$/,
  /^envoy\/type\/(matcher|metadata|tracing|http)\/[a-z_]+\.proto$/,
];

/** `(udpa.annotations.sensitive)`: dumps need it for redaction. */
const SENSITIVE_OPTION = 76569463;
/** `(google.api.http)`, kept of methods: the paths of REST. */
const HTTP_OPTION = 72295728;

function protoFilesUnder(directory, prefix = '') {
  return readdirSync(join(directory, prefix), { withFileTypes: true }).flatMap((entry) => {
    const path = prefix + entry.name;
    if (entry.isDirectory()) return protoFilesUnder(directory, `${path}/`);
    return path.endsWith('.proto') ? [path] : [];
  });
}

/** The root files and all their transitive imports: path → text. */
function closure() {
  const files = new Map();
  const candidates = includes.flatMap((directory) => protoFilesUnder(directory));
  const wanted = candidates.filter(
    (path) => rootFiles.some((r) => r.test(path)) && !leftOut.some((l) => l.test(path)),
  );
  const pending = [...new Set(wanted)].sort();
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    if (files.has(path) || path.startsWith('google/protobuf/')) continue;
    const directory = includes.find((candidate) => existsSync(join(candidate, path)));
    if (directory === undefined)
      throw new Error(
        `the Envoy API imports ${path}, which is missing: declare it in protos/envoy-imports`,
      );
    const text = addIgnoreEmpty(path, readFileSync(join(directory, path), 'utf8'));
    files.set(path, text);
    for (const [, imported] of text.matchAll(/^import\s+(?:public\s+|weak\s+)?"([^"]+)";/gm))
      pending.push(imported);
  }
  return new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * Adds the option `ignore_empty`, which the Envoy API uses, but the older validate.proto of the
 * same package lacks. `slim` drops all such options.
 */
function addIgnoreEmpty(path, text) {
  if (path !== 'validate/validate.proto' || /message StringRules \{[^}]*ignore_empty/.test(text))
    return text;
  return text.replace('message StringRules {', '$& optional bool ignore_empty = 9999;');
}

function compile(files) {
  const workspace = mkdtempSync(join(tmpdir(), 'descriptors-'));
  try {
    for (const [path, text] of files) {
      mkdirSync(dirname(join(workspace, path)), { recursive: true });
      writeFileSync(join(workspace, path), text);
    }
    const buf = join(dirname(bufPackage), require(bufPackage).bin.buf);
    const args = [
      'build',
      workspace,
      '--as-file-descriptor-set',
      '--exclude-source-info',
      '-o',
      '-#format=binpb',
    ];
    return execFileSync(process.execPath, [buf, ...args], {
      maxBuffer: 64 * 1024 * 1024,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  } finally {
    rmSync(workspace, { recursive: true, force: true });
  }
}

/**
 * Drops the options that affect neither JSON nor the wire format, and the files that only declare
 * options.
 */
function slim(bytes) {
  const set = fromBinary(FileDescriptorSetSchema, bytes);
  const needed = set.file.filter(
    (file) => file.messageType.length + file.enumType.length > 0 && !isOptionsOnly(file),
  );
  const names = new Set(needed.map((file) => file.name));
  for (const file of needed) {
    file.options = undefined;
    file.service.forEach(slimService);
    file.extension = [];
    file.dependency = file.dependency.filter((name) => names.has(name));
    file.publicDependency = [];
    file.weakDependency = [];
    file.messageType.forEach(slimMessage);
    file.enumType.forEach(slimEnum);
  }
  needed.sort((a, b) => (a.name < b.name ? -1 : 1));
  return toBinary(
    FileDescriptorSetSchema,
    create(FileDescriptorSetSchema, { file: inDependencyOrder(needed) }),
  );
}

function isOptionsOnly(file) {
  return /^(validate\/|udpa\/annotations\/|xds\/annotations\/|envoy\/annotations\/|google\/api\/(annotations|http)|google\/protobuf\/descriptor)/.test(
    file.name,
  );
}

function slimService(service) {
  service.options = undefined;
  for (const method of service.method) {
    const http = method.options?.$unknown?.filter(({ no }) => no === HTTP_OPTION) ?? [];
    method.options = undefined;
    if (http.length === 0) continue;
    method.options = create(MethodOptionsSchema);
    method.options.$unknown = http;
  }
}

function slimMessage(message) {
  const isMapEntry = message.options?.mapEntry === true;
  message.options = isMapEntry ? create(MessageOptionsSchema, { mapEntry: true }) : undefined;
  message.extension = [];
  message.reservedName = [];
  message.reservedRange = [];
  message.field.forEach(slimField);
  message.oneofDecl.forEach((oneof) => (oneof.options = undefined));
  message.nestedType.forEach(slimMessage);
  message.enumType.forEach(slimEnum);
}

function slimField(field) {
  const { packed, $unknown } = field.options ?? {};
  const kept = create(FieldOptionsSchema);
  if (packed === false) kept.packed = false;
  const sensitive = $unknown?.filter((unknown) => unknown.no === SENSITIVE_OPTION) ?? [];
  if (sensitive.length > 0) kept.$unknown = sensitive;
  field.options = packed === false || sensitive.length > 0 ? kept : undefined;
}

function slimEnum(desc) {
  if (desc.options?.allowAlias !== true) desc.options = undefined;
  desc.value.forEach((value) => (value.options = undefined));
}

/** Sorts imports before importers, as readers of descriptor sets expect. */
function inDependencyOrder(files) {
  const byName = new Map(files.map((file) => [file.name, file]));
  const ordered = [];
  const placed = new Set();
  const place = (file) => {
    if (placed.has(file)) return;
    placed.add(file);
    for (const name of file.dependency) place(byName.get(name));
    ordered.push(file);
  };
  files.forEach(place);
  return ordered;
}

const files = closure();
const hash = createHash('sha256').update(readFileSync(fileURLToPath(import.meta.url)));
hash.update(require(bufPackage).version);
for (const [path, text] of files) hash.update(path).update('\0').update(text).update('\0');
const stamp = hash.digest('hex');
const current =
  existsSync(target) && existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp;
if (!current || process.argv.includes('--force')) {
  const bytes = slim(compile(files));
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, bytes);
  writeFileSync(stampFile, stamp);
  process.stdout.write(
    `envoy-descriptors.binpb: ${files.size} files, ${Math.round(bytes.length / 1024)} KiB\n`,
  );
}
