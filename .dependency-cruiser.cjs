// The direction of imports: protos <- config <- authorities <- gateway. Rule names state requirements.
/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'no-circular',
      severity: 'error',
      comment: 'In an import cycle, no module is responsible for a decision.',
      from: {},
      to: { circular: true },
    },
    {
      name: 'protos-know-nothing',
      severity: 'error',
      from: { path: '^protos/' },
      to: { path: '^(config|authorities|gateway)/' },
    },
    {
      name: 'config-knows-protos-only',
      severity: 'error',
      from: { path: '^config/' },
      to: { path: '^(authorities|gateway)/' },
    },
    {
      name: 'authorities-do-not-know-the-gateway',
      severity: 'error',
      from: { path: '^authorities/' },
      to: { path: '^gateway/' },
    },
    {
      name: 'gateway-uses-authorities-by-its-index',
      severity: 'error',
      from: { path: '^gateway/' },
      to: { path: '^authorities/', pathNot: '^authorities/index\\.ts$' },
    },
    {
      name: 'core-is-pure',
      severity: 'error',
      comment:
        'Sockets, files, clocks and stateful libraries belong to shells. Cores use node:crypto only for hashes.',
      from: { path: '^(authorities|gateway)/core/' },
      to: {
        pathNot: [
          '^(authorities|gateway)/core/',
          '^authorities/index\\.ts$',
          // Except the modules that read Envoy's descriptors from disk.
          '^protos/(?!envoy-registry|json-resources|resource-view)',
          '^config/(model|limits|defaults|file-resource)\\.ts$',
          '^(node:)?(crypto|util)$',
        ],
      },
    },
    {
      name: 'core-reaches-no-disk-and-no-socket',
      severity: 'error',
      from: { path: '^(authorities/core/|config/(model|limits|defaults|file-resource)\\.ts)' },
      to: { path: '^(node:)?(fs|net|tls|http|http2|child_process)', reachable: true },
    },
    {
      name: 'folders-of-the-upstream-core-are-layers',
      severity: 'error',
      comment: 'sources and resolution <- failover <- node-groups <- federation',
      from: { path: '^authorities/core/(sources|resolution)/' },
      to: { path: '^authorities/core/(failover|node-groups|federation)' },
    },
    {
      name: 'failover-does-not-know-node-groups',
      severity: 'error',
      from: { path: '^authorities/core/failover/' },
      to: { path: '^authorities/core/(node-groups|federation)' },
    },
    {
      name: 'flavours-do-not-know-each-other',
      severity: 'error',
      from: { path: '^gateway/core/(sotw|cache|session)/' },
      to: { path: '^gateway/core/delta/' },
    },
    {
      name: 'delta-does-not-know-state-of-the-world',
      severity: 'error',
      from: { path: '^gateway/core/(delta|cache|session)/' },
      to: { path: '^gateway/core/sotw/' },
    },
    {
      name: 'core-does-not-know-shells',
      severity: 'error',
      from: { path: '^authorities/core/' },
      to: { path: '^authorities/(?!core/)' },
    },
    {
      name: 'grpc-js-in-two-files-and-one-folder',
      severity: 'error',
      from: {
        path: '^(protos|config|authorities|gateway)/',
        pathNot: '^(authorities/grpc-(connections|transport)\\.ts$|gateway/admin/grpc/)',
      },
      to: { path: 'node_modules/@grpc/' },
    },
    {
      name: 'http2-in-the-grpc-server',
      severity: 'error',
      from: {
        path: '^(protos|config|authorities|gateway)/',
        pathNot: '^gateway/clients/(grpc|rest)-(http2|call|headers)\\.ts$',
      },
      to: { path: '^(node:)?http2$' },
    },
    {
      name: 'opossum-in-one-file',
      severity: 'error',
      from: {
        path: '^(protos|config|authorities|gateway)/',
        pathNot: '^authorities/source-breaker\\.ts$',
      },
      to: { path: 'node_modules/opossum/' },
    },
    {
      name: 'nats-in-one-file',
      severity: 'error',
      from: {
        path: '^(protos|config|authorities|gateway)/',
        pathNot: '^gateway/peers/nats-exchange\\.ts$',
      },
      to: { path: 'node_modules/nats/' },
    },
    {
      name: 'production-code-does-not-know-tests',
      severity: 'error',
      from: { path: '^(protos|config|authorities|gateway)/' },
      to: { path: '^(test|benchmarks)/' },
    },
    {
      name: 'no-dev-dependencies-in-production',
      severity: 'error',
      from: { path: '^(protos|config|authorities|gateway)/' },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'] },
    },
    { name: 'no-unresolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
