/**
 * Goal: a file of resources is read in each of its forms, and a mistake is reported at its place.
 */
import t from 'tap';
import { formatProblem } from '../../../config/problems.js';
import { parseResourceFile } from '../../../config/resource-file.js';
import { redactedJson } from '../../../protos/json-resources.js';
import { TYPE_URL } from '../../../protos/type-urls.js';

const CLA = `"@type": ${TYPE_URL.clusterLoadAssignment}`;

function read(text: string): readonly string[] {
  const result = parseResourceFile(text, 'r.yaml');
  if (!result.ok) return result.problems.map(formatProblem);
  return result.resources.map(({ name, typeUrl, body }) => {
    const json = redactedJson(typeUrl, body);
    return `${name} ${JSON.stringify(json)}`;
  });
}

t.test('one resource, several documents, a list, resources: all read the same', (t) => {
  const a = `a {"@type":"${TYPE_URL.clusterLoadAssignment}","cluster_name":"a"}`;
  const b = a.replaceAll('a {', 'b {').replace('"cluster_name":"a"', '"cluster_name":"b"');
  t.strictSame(read(`${CLA}\ncluster_name: a\n`), [a]);
  t.strictSame(read(`${CLA}\ncluster_name: a\n---\n${CLA}\nclusterName: b\n`), [a, b]);
  t.strictSame(read(`- { ${CLA}, cluster_name: a }\n- { ${CLA}, cluster_name: b }\n`), [a, b]);
  t.strictSame(
    read(
      `resources:\n  - { ${CLA}, cluster_name: a }\n  - resource: { ${CLA}, cluster_name: b }\n`,
    ),
    [a, b],
  );
  t.strictSame(
    read(
      JSON.stringify({
        resources: [{ '@type': TYPE_URL.clusterLoadAssignment, cluster_name: 'a' }],
      }),
    ),
    [a],
  );
  t.strictSame(read(''), []);
  t.strictSame(read('resources:\n'), []);
  t.end();
});

t.test('a resource may be served under a name other than its own', (t) => {
  t.match(read(`resources: [{ name: "xdstp://x/T/a", resource: { ${CLA}, cluster_name: a } }]`), [
    /^xdstp:\/\/x\/T\/a \{/,
  ]);
  t.end();
});

t.test('the same name with two types is two resources', (t) => {
  const text = `- { ${CLA}, cluster_name: a }\n- { "@type": ${TYPE_URL.cluster}, name: a }\n`;
  t.equal(read(text).length, 2);
  t.end();
});

const BAD: readonly (readonly [string, readonly string[]])[] = [
  ['a: b: c', [/^r\.yaml:1:\d+: /] as unknown as readonly string[]],
  ['5', ['r.yaml:1:1: must be an object with "@type"']],
  ['name: x', ['r.yaml:1:1: has no "@type"']],
  ['resources: 5', ['r.yaml:1:12: resources: must be a list']],
  [
    `resourses: []\nresources: []`,
    ['r.yaml:1:1: resourses: unknown key (did you mean "resources"?)'],
  ],
  [`- { name: 5, resource: { ${CLA} } }`, ['r.yaml:1:11: [0].name: must be non-empty text']],
  [
    `- { nam: x, resource: { ${CLA} } }`,
    ['r.yaml:1:5: [0].nam: unknown key (did you mean "name"?)'],
  ],
  [
    '"@type": x/y.Z',
    ['r.yaml:1:10: "@type": "x/y.Z" is not a type of the built-in Envoy API (v3)'],
  ],
  [CLA, ['r.yaml:1:1: this ClusterLoadAssignment has no name (write { name: …, resource: … })']],
  [
    `- { ${CLA}, cluster_name: a }\n- { ${CLA}, cluster_name: a }`,
    ['r.yaml:2:3: [1]: duplicate ClusterLoadAssignment "a"'],
  ],
  [
    `resources:\n  - ${CLA}\n    cluster_name: a\n    endpoints:\n      - lb_endpoint: []\n  - ${CLA}\n    cluster_name: b\n    endpoints:\n      - priority: x\n`,
    [
      'r.yaml:5:9: resources[0].endpoints[0].lb_endpoint: envoy.config.endpoint.v3.LocalityLbEndpoints has no such field',
      'r.yaml:9:19: resources[1].endpoints[0].priority: expected number (uint32)',
    ],
  ],
];

for (const [text, expected] of BAD) {
  t.test(`a mistake is reported at its place: ${JSON.stringify(text)}`, (t) => {
    t.match(read(text), expected);
    t.equal(read(text).length, expected.length);
    t.end();
  });
}

const TYPE = `type_url: ${TYPE_URL.clusterLoadAssignment}`;
const WRAPPER = `"@type": ${TYPE_URL.resource}`;

t.test('a DiscoveryResponse as Envoy writes it is a list of its resources', (t) => {
  const a = `a {"@type":"${TYPE_URL.clusterLoadAssignment}","cluster_name":"a"}`;
  for (const text of [
    `version_info: "1"\n${TYPE}\nresources: [{ ${CLA}, cluster_name: a }]`,
    `versionInfo: 1\n${TYPE.replace('type_url', 'typeUrl')}\nnonce: x\ncanary: true\ncontrol_plane: { identifier: x }\nresources: [{ ${CLA}, cluster_name: a }]`,
    `"@type": type.googleapis.com/envoy.service.discovery.v3.DiscoveryResponse\nresources: [{ ${CLA}, cluster_name: a }]`,
    `resources: [{ ${WRAPPER}, resource: { ${CLA}, cluster_name: a } }]`,
    `resources: [{ ${WRAPPER}, name: a, version: "7", ttl: 5s, resource: { ${CLA}, cluster_name: a } }]`,
  ]) {
    t.strictSame(read(text), [a], text);
  }
  t.match(read(`[{ ${WRAPPER}, name: b, resource: { ${CLA}, cluster_name: a } }]`), [/^b \{/]);
  t.strictSame(read(`version_info: "1"\n${TYPE}\n`), [], 'an empty set');
  t.end();
});

t.test('a mistake in a DiscoveryResponse is reported at its place', (t) => {
  for (const [text, problems] of [
    [
      `version_inf: 1\n${TYPE}\nresources: []`,
      ['r.yaml:1:1: version_inf: unknown key (did you mean "version_info"?)'],
    ],
    ['type_url: 5\nresources: []', ['r.yaml:1:11: type_url: must be text']],
    [
      `${TYPE}\nresources:\n- { "@type": ${TYPE_URL.cluster}, name: a }`,
      [
        `r.yaml:3:14: resources[0]."@type": is not the type_url ${TYPE_URL.clusterLoadAssignment} (correct type_url, or write a file for each type)`,
      ],
    ],
    [
      `- { ${WRAPPER}, name: a }`,
      ['r.yaml:1:3: [0]: has no resource (write resource: { "@type": … })'],
    ],
    [
      `- { ${WRAPPER}, ttl: soon, resource: { ${CLA}, cluster_name: a } }`,
      [/^r\.yaml:1:\d+: \[0\]\.ttl: /],
    ],
    [
      `- { ${WRAPPER}, resource: { ${CLA}, clusternam: a } }`,
      [/^r\.yaml:1:\d+: \[0\]\.resource\.clusternam: .*has no such field/],
    ],
  ] as const) {
    t.match(read(text), problems, text);
  }
  t.end();
});

t.test('a bad document costs only itself: the others are read', (t) => {
  const named = (name: string): string => `${CLA}\ncluster_name: ${name}\n`;
  for (const [text, place] of [
    [`${named('a')}---\n${CLA}\nclusternam: b\n---\n${named('c')}`, /^r\.yaml:5:1: clusternam/],
    [`${named('a')}---\nname: [x\n---\n${named('c')}`, /^r\.yaml:\d+:\d+: /],
    [`${named('a')}---\n- { ${CLA}, cluster_name: d }\n- 5\n---\n${named('c')}`, /^r\.yaml:5:3/],
  ] as const) {
    const result = parseResourceFile(text, 'r.yaml');
    t.notOk(result.ok);
    t.strictSame(
      result.resources.map(({ name }) => name),
      ['a', 'c'],
      text,
    );
    if (!result.ok) t.match(formatProblem(result.problems[0]!), place);
  }
  t.end();
});
