/**
 * Goal: operators see a large resource as they see a small one, without its secrets, and its conversion on the other thread
 * is shared.
 * Method: resources of more than 64 KiB on the real thread.
 */
import t from 'tap';
import { conversions, type Projection } from '../../../../authorities/index.js';
import { shownBody, shownJson, withJson } from '../../../../gateway/admin/shown-resource.js';
import { resourceFromJson, redactedJson } from '../../../../protos/json-resources.js';
import { encodeResourceField } from '../../../../protos/resource-field.js';
import { oldStyleName } from '../../../../protos/resource-name.js';
import { CDS, SDS } from '../../../support/mesh-names.js';

t.teardown(() => {
  conversions.end();
});

function bodyOf(typeUrl: string, content: object): Uint8Array {
  const read = resourceFromJson({ '@type': typeUrl, ...content });
  if (!read.ok) throw new Error(read.message);
  return read.body;
}

function projectionOf(typeUrl: string, body: Uint8Array): Projection {
  const name = oldStyleName('', 'x');
  const field = encodeResourceField('x', 'v', typeUrl, body);
  return { name, typeUrl, version: 'v', field, edsKey: undefined };
}

const LONG = 'x'.repeat(70_000);

t.test('a large resource is shown as a small one, without its secrets', async (t) => {
  const filter_metadata = { x: { note: LONG, api_key: 'canary' } };
  const body = bodyOf(CDS, { name: 'x', metadata: { filter_metadata } });
  const projection = projectionOf(CDS, body);
  const [json, again, shown] = await Promise.all([
    shownJson(projection),
    shownJson(projection),
    shownBody(projection),
  ]);
  t.equal(json, JSON.stringify(redactedJson(CDS, body)));
  t.equal(again, json);
  t.match(json, LONG);
  const redacted = resourceFromJson(JSON.parse(json));
  t.strictSame(Buffer.from(shown ?? []), redacted.ok && Buffer.from(redacted.body));
  for (const text of [json, Buffer.from(shown ?? []).toString()]) t.notMatch(text, 'canary');
  const small = projectionOf(CDS, bodyOf(CDS, { name: 'x' }));
  t.equal(await shownJson(small), `{"@type":"${CDS}","name":"x"}`);
});

t.test('a large Secret has its name only, and no content', async (t) => {
  const secret = { name: 'x', generic_secret: { secret: { inline_string: LONG } } };
  const projection = projectionOf(SDS, bodyOf(SDS, secret));
  t.strictSame(JSON.parse(await shownJson(projection)), {
    '@type': SDS,
    name: 'x',
    redacted: true,
  });
  t.equal(await shownBody(projection), undefined);
});

t.test('a large resource that cannot be read has its type and size', async (t) => {
  const projection = projectionOf(CDS, Buffer.alloc(70_000, 0xff));
  t.match(JSON.parse(await shownJson(projection)), { '@type': CDS, bytes: 70_000 });
  t.equal(await shownBody(projection), undefined);
});

t.test('JSON becomes a field of an object', (t) => {
  t.equal(withJson({}, 'a"', '[1]'), '{"a\\"":[1]}');
  t.equal(withJson({ a: 1, b: undefined }, 'c', '{}'), '{"a":1,"c":{}}');
  t.end();
});
