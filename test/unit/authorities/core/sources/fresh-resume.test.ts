/**
 * Goal: with `resume: fresh`, a reconnect notices what the server deleted meanwhile, although the
 * server ignores `initial_resource_versions` (docs/SPEC.md, "What each variant of a source does").
 * Method: the state machine of the delta stream alone.
 */
import t from 'tap';
import { DeltaStream } from '../../../../../authorities/core/sources/delta-stream.js';
import { SourceContents } from '../../../../../authorities/core/sources/source-contents.js';
import { decodeDeltaRequest } from '../../../../../protos/delta-codec.js';
import { nameOf, thing, THING } from '../../../../support/federation-driver.js';
import { STREAM_OPTIONS } from '../../../../support/stream-options.js';
import { at } from '../../../../support/stream-times.js';

const QUIET_MS = 500;
const glob = nameOf(thing('cloud', 'g/*'));

function start(resume: 'trusted' | 'fresh') {
  const contents = new SourceContents();
  const stream = new DeltaStream(contents, { ...STREAM_OPTIONS, resume });
  contents.subscribe(THING, glob, {});
  contents.subscribe(THING, nameOf(thing('cloud', 'single')), {});
  const send = (ids: readonly string[], nowMs: number, removed: readonly string[] = []): void => {
    const resources = ids.map((id) => {
      const name = thing('cloud', id);
      return { name, version: '1', typeUrl: THING, body: new Uint8Array([1]), ttlMs: undefined };
    });
    const rest = { typeUrl: THING, nonce: '1', systemVersion: '', errors: [] };
    const gone = removed.map((id) => thing('cloud', id));
    stream.handleResponse({ ...rest, resources, removed: gone }, 100, at(nowMs));
  };
  const held = (): readonly string[] =>
    [...contents.entries(THING)].map(({ projection }) => projection.name.id).sort();
  const connect = () => {
    stream.handleOpened();
    const { bytes = new Uint8Array() } = stream.pollRequest(0) ?? {};
    const decoded = decodeDeltaRequest(bytes, Infinity);
    return decoded.ok ? [...decoded.message.initialVersions.keys()] : [];
  };
  connect();
  send(['g/a', 'g/b', 'single'], 0);
  stream.handleEnded();
  contents.takeChanges();
  return { contents, stream, send, held, connect };
}

t.test('a trusted reconnect states the versions; a fresh one states none', (t) => {
  t.strictSame(start('trusted').connect().length, 2, 'all but the one that forces a response');
  t.strictSame(start('fresh').connect(), []);
  t.end();
});

t.test('what a whole fresh response lacks is removed through the guard, not before', (t) => {
  const { contents, stream, send, held, connect } = start('fresh');
  connect();
  t.equal(stream.owesResponse(), true);
  send(['g/a'], 1_000);
  t.strictSame(held(), ['g/a', 'g/b', 'single'], 'another part may follow');
  send(['single'], 1_400);
  t.equal(stream.nextDeadlineMs(), 1_400 + QUIET_MS);
  stream.handleTimer(1_400 + QUIET_MS - 1);
  t.strictSame(held(), ['g/a', 'g/b', 'single']);
  stream.handleTimer(1_400 + QUIET_MS);
  t.strictSame(held(), ['g/a', 'single']);
  const removed = contents.takeChanges().filter(({ kind }) => kind === 'removed');
  t.match(removed, [{ name: { id: 'g/b' }, isDoubtful: true }]);
  t.end();
});

t.test('later responses of the stream remove nothing', (t) => {
  const { stream, send, held, connect } = start('fresh');
  connect();
  send(['g/a', 'g/b', 'single'], 1_000);
  stream.handleTimer(1_000 + QUIET_MS);
  send(['g/a'], 2_000);
  stream.handleTimer(2_000 + QUIET_MS);
  t.strictSame(held(), ['g/a', 'g/b', 'single']);
  t.end();
});

t.test('a stream that ends first removes nothing', (t) => {
  const { stream, send, held, connect } = start('fresh');
  connect();
  send(['g/a'], 1_000);
  stream.handleEnded();
  stream.handleTimer(10_000);
  t.strictSame(held(), ['g/a', 'g/b', 'single']);
  t.end();
});

t.test('a name that the stream removes or has an error for is not removed by its absence', (t) => {
  const { stream, held, connect } = start('fresh');
  connect();
  const nonce = { typeUrl: THING, nonce: '1', systemVersion: '', resources: [] };
  const error = { name: thing('cloud', 'g/a'), status: { code: 14, message: 'later' } };
  const foreign = { name: 'no name', status: { code: 14, message: '' } };
  const removed = [thing('cloud', 'g/b')];
  stream.handleResponse({ ...nonce, removed, errors: [error, foreign] }, 100, at(1_000));
  t.strictSame(held(), ['g/a', 'single']);
  const other = 'type.googleapis.com/test.v1.Other';
  stream.handleResponse({ ...nonce, typeUrl: other, removed: [], errors: [] }, 100, at(1_000));
  stream.handleTimer(1_000 + QUIET_MS);
  t.strictSame(held(), ['g/a'], 'the name with the error stays');
  t.end();
});
