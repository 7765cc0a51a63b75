/**
 * Goal: a version is a hash of type and content alone, so that all instances have the same one (invariant 4), whatever was hashed
 * before and however large the content is.
 * Method: the hash, computed in one piece, beside the version of the projection.
 */
import { createHash } from 'node:crypto';
import t from 'tap';
import { readResource } from '../../../../authorities/core/projection.js';
import { THING, thing } from '../../../support/federation-driver.js';
import { nameOf } from '../../../support/fake-directory.js';

const name = nameOf(thing('cloud', 'a'));

function versionOf(body: Uint8Array): string {
  const read = readResource(name, THING, THING, body);
  if (!read.ok) throw new Error(read.reason);
  return read.projection.version;
}

const hashOf = (body: Uint8Array): string =>
  createHash('sha256').update(`${THING}\0`).update(body).digest('base64url').slice(0, 22);

t.test('a version is the hash of type and content, of every size (invariant 4)', (t) => {
  for (const size of [0, 1, 1_000, 65_000, 65_535, 65_536, 65_537, 200_000, 10, 0]) {
    const body = Buffer.alloc(size, size % 251);
    t.equal(versionOf(body), hashOf(body), `${size} bytes`);
  }
  t.end();
});
